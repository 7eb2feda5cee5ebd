from __future__ import annotations

import asyncio
import datetime
from importlib import import_module
from typing import Any

import pytest

from broker.replica.waiting.append_entries import (
    AppendEntry,
    AppendResult,
    BatchTransaction,
    LeaderHint,
)
from jbodlab.peers.client import KafkaConnection
from jbodlab.record_batch.record_batch import TRANSACTIONAL, build_batch
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, TopicPartition
from tests.broker.api.calls import BATCH, produce
from tests.waiting import called

PRODUCE = 0
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def partitions(response: Any) -> Any:
    (topic,) = response.responses
    assert topic.name == "t"
    return topic.partition_responses


async def test_batches_reach_the_replicas_as_they_came(cluster: Any, client: Any) -> None:
    cluster.replicas.results["append"] = [
        AppendResult(topic_partition=T0, base_offset=7, log_start_offset=2),
        AppendResult(
            topic_partition=T1,
            error_code=ErrorCode.CORRUPT_MESSAGE,
            error_message="no records",
        ),
    ]

    response = await client.call(PRODUCE, 12, produce())

    assert cluster.replicas.calls == [
        (
            "append",
            [
                AppendEntry(topic_partition=T0, records=BATCH),
                AppendEntry(topic_partition=T1, records=None),
            ],
            -1,
            1500,
        )
    ]
    first, second = partitions(response)
    assert (first.index, int(first.error_code), first.base_offset) == (0, 0, 7)
    assert first.log_start_offset == 2
    assert (second.index, int(second.error_code), second.base_offset) == (1, 2, -1)
    assert second.error_message == "no records"


@pytest.mark.parametrize("code", [6, 74, 56])
async def test_client_that_was_sent_away_is_told_the_new_leader(
    cluster: Any, client: Any, code: int
) -> None:
    cluster.publish_topic(
        "t", cluster.partition(2, (1, 2), leader_epoch=9), cluster.partition(1, (1, 2))
    )
    failed = ErrorCode(code)
    cluster.replicas.results["append"] = [
        AppendResult(topic_partition=T0, error_code=failed),
        AppendResult(topic_partition=T1, error_code=failed),
    ]

    response = await client.call(PRODUCE, 10, produce(10))

    first, second = partitions(response)
    assert (first.current_leader.leader_id, first.current_leader.leader_epoch) == (2, 9)
    assert second.current_leader.leader_id == -1, "this broker itself is no hint"
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "host-2", 9092)
    assert endpoint.rack == "rack-2"


async def test_hint_of_the_replicas_wins_over_the_cache_and_a_fenced_leader_is_none(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic("t", cluster.partition(1, (1, 2)), cluster.partition(3, (1, 3)))
    hint = LeaderHint(leader=BrokerId(2), leader_epoch=LeaderEpoch(4))
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.replicas.results["append"] = [
        AppendResult(topic_partition=T0, error_code=code, leader_hint=hint),
        AppendResult(topic_partition=T1, error_code=code),
    ]

    response = await client.call(PRODUCE, 12, produce())

    first, second = partitions(response)
    assert (first.current_leader.leader_id, first.current_leader.leader_epoch) == (2, 4)
    assert second.current_leader.leader_id == -1
    assert [endpoint.node_id for endpoint in response.node_endpoints] == [2]


@pytest.mark.parametrize(
    ("request_entity", "code"),
    [(produce(acks=2), 21), (produce(acks=-2), 21)],
)
async def test_request_that_cannot_be_served_is_refused_before_the_replicas_see_it(
    cluster: Any, client: Any, request_entity: Any, code: int
) -> None:
    response = await client.call(PRODUCE, 12, request_entity)

    assert [int(p.error_code) for p in partitions(response)] == [code, code]
    assert cluster.replicas.calls == []


@pytest.mark.parametrize("client_id", ["test", "__admin_client"])
async def test_topic_of_coordinators_is_written_by_brokers_only(
    cluster: Any, client: Any, client_id: str
) -> None:
    kio = import_module("kio.schema.produce.v12.request")
    topics = ("t", "__consumer_offsets", "u")
    request = kio.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout=datetime.timedelta(milliseconds=1500),
        topic_data=tuple(
            kio.TopicProduceData(
                name=name, partition_data=(kio.PartitionProduceData(index=0, records=BATCH),)
            )
            for name in topics
        ),
    )
    taken = [name for name in topics if name != "__consumer_offsets"]
    cluster.replicas.results["append"] = [
        AppendResult(topic_partition=TopicPartition(name, 0), base_offset=7) for name in taken
    ]
    connection = await KafkaConnection.open(
        "127.0.0.1", cluster.port, client_id=client_id, timeout_s=10
    )

    answer = await connection.call(PRODUCE, 12, request)

    connection.close()
    assert [
        (topic.name, int(each.error_code), each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    ] == [("t", 0, 7), ("__consumer_offsets", 17, -1), ("u", 0, 7)]
    (call,) = cluster.replicas.calls
    assert [entry.topic_partition.topic for entry in call[1]] == taken


@pytest.mark.parametrize(("version", "codec", "code"), [(6, 4, 76), (7, 4, 0), (6, 3, 0)])
async def test_zstd_is_refused_in_versions_that_do_not_know_it(
    cluster: Any, client: Any, version: int, codec: int, code: int
) -> None:
    cluster.replicas.results["append"] = [
        AppendResult(topic_partition=T0),
        AppendResult(topic_partition=T1),
    ]
    batch = bytearray(build_batch([(None, b"v")], timestamp_ms=0))
    batch[22] = codec

    response = await client.call(PRODUCE, version, produce(version, records=bytes(batch)))

    assert [int(p.error_code) for p in partitions(response)] == [code, code]


@pytest.mark.parametrize(
    ("error", "code"),
    [(LogDirError("/d1", None, "EIO"), 6), (ZeroDivisionError(), -1)],  # type: ignore[arg-type]
)
async def test_exception_becomes_the_code_of_every_partition(
    cluster: Any, client: Any, error: Exception, code: int
) -> None:
    waiting = asyncio.get_running_loop().create_future()
    cluster.replicas.results["append"] = waiting
    call = asyncio.ensure_future(client.call(PRODUCE, 12, produce()))
    await called(cluster.replicas.calls)
    waiting.set_exception(error)
    assert [int(p.error_code) for p in partitions(await call)] == [code, code]

    cluster.replicas.results["append"] = error
    response = await client.call(PRODUCE, 12, produce())
    assert [int(p.error_code) for p in partitions(response)] == [code, code]


async def test_acks_0_has_no_response(cluster: Any, client: Any) -> None:
    cluster.replicas.results["append"] = [
        AppendResult(topic_partition=T0, base_offset=1),
        AppendResult(topic_partition=T1, base_offset=1),
    ]
    with pytest.raises(TimeoutError):
        await client.call(PRODUCE, 12, produce(acks=0), timeout_s=0.1)
    assert len(cluster.replicas.calls) == 1


async def test_acks_0_that_fails_closes_the_connection(cluster: Any, client: Any) -> None:
    cluster.replicas.results["append"] = [
        AppendResult(topic_partition=T0, base_offset=1),
        AppendResult(topic_partition=T1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]
    with pytest.raises(ConnectionError):
        await client.call(PRODUCE, 12, produce(acks=0))


async def test_append_that_waits_is_given_up_when_the_client_goes_away(
    cluster: Any, client: Any
) -> None:
    waiting = asyncio.get_running_loop().create_future()
    cluster.replicas.results["append"] = waiting
    with pytest.raises(TimeoutError):
        await client.call(PRODUCE, 12, produce(), timeout_s=0.05)
    async with asyncio.timeout(10):
        while not waiting.done():  # noqa: ASYNC110 - nothing to wait on
            await asyncio.sleep(0.001)
    assert waiting.cancelled()


def of_transaction(producer_id: int = 7, epoch: int = 2, attributes: int = TRANSACTIONAL) -> bytes:
    return build_batch(
        [(None, b"v")],
        timestamp_ms=0,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
    )


def two(first: bytes, second: bytes, transactional_id: str | None, version: int = 12) -> Any:
    kio = import_module(f"kio.schema.produce.v{version}.request")
    return kio.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout=datetime.timedelta(milliseconds=1500),
        topic_data=(
            kio.TopicProduceData(
                name="t",
                partition_data=tuple(
                    kio.PartitionProduceData(index=index, records=records)
                    for index, records in enumerate((first, second))
                ),
            ),
        ),
    )


APPENDED = [AppendResult(topic_partition=each, base_offset=1) for each in (T0, T1)]


@pytest.mark.parametrize("version", range(3, 13))
async def test_batches_of_transactions_come_with_what_their_version_means(
    cluster: Any, client: Any, version: int
) -> None:
    cluster.replicas.results["append"] = APPENDED
    batch = of_transaction()

    answer = await client.call(PRODUCE, version, two(batch, batch, "x", version))

    assert [int(each.error_code) for each in partitions(answer)] == [0, 0]
    ((_, entries, acks, timeout_ms, transaction),) = cluster.replicas.calls
    assert (len(entries), acks, timeout_ms) == (2, -1, 1500)
    assert transaction == BatchTransaction(
        transactional_id="x", adds_partitions=version >= 12, knows_abortable=version >= 11
    )


@pytest.mark.parametrize(
    ("first", "second", "transactional_id", "code"),
    [
        (of_transaction(), of_transaction(attributes=0), None, 53),
        (of_transaction(), of_transaction(producer_id=8), "x", 49),
        (of_transaction(), of_transaction(epoch=3), "x", 49),
    ],
)
async def test_a_request_that_mixes_transactions_is_refused_as_a_whole(
    cluster: Any, client: Any, first: bytes, second: bytes, transactional_id: str, code: int
) -> None:
    answer = await client.call(PRODUCE, 12, two(first, second, transactional_id))

    assert [int(each.error_code) for each in partitions(answer)] == [code, code]
    assert not cluster.replicas.calls


async def test_batches_of_no_transaction_may_come_with_a_transactional_id(
    cluster: Any, client: Any
) -> None:
    cluster.replicas.results["append"] = APPENDED
    plain = of_transaction(attributes=0)
    answer = await client.call(PRODUCE, 12, two(plain, plain, "x"))
    assert [int(each.error_code) for each in partitions(answer)] == [0, 0]
