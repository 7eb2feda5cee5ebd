from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from broker.fetch.fetch_requests import DivergingEpoch, FetchEntry, FetchParams, FetchResult
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, TopicId, TopicPartition
from tests.broker.api.calls import fetch, result

FETCH = 1
API_VERSIONS = 18
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
UNKNOWN_ID = UUID(int=99)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 16, 17, 18])
async def test_every_partition_asked_for_is_in_the_answer(
    cluster: Any, client: Any, version: int
) -> None:
    topic_id = cluster.publish_topic("t", cluster.partition(1), cluster.partition(1))
    cluster.replicas.results["fetch"] = [result(T0, b"one", b"two"), result(T1)]

    topic = topic_id if version >= 13 else "t"
    response = await client.call(FETCH, version, fetch(version, (topic, [0, 1])))

    expected_id = TopicId(topic_id) if version >= 13 else None
    ((_, params, entries),) = cluster.replicas.calls
    assert params == FetchParams(
        replica_id=BrokerId(-1),
        replica_epoch=-1,
        max_wait_ms=250,
        min_bytes=1,
        max_bytes=1 << 20,
        any_replica=version >= 11,
    )
    assert not params.is_follower
    assert entries == [
        FetchEntry(
            topic_partition=partition,
            topic_id=expected_id,
            fetch_offset=10 + partition.partition,
            partition_max_bytes=1000,
        )
        for partition in (T0, T1)
    ]
    (answered,) = response.responses
    first, second = answered.partitions
    assert (first.partition_index, first.records) == (0, b"onetwo")
    assert (second.partition_index, second.records) == (1, b"")
    assert first.high_watermark == first.last_stable_offset == 20
    assert getattr(response, "session_id", 0) == 0


@pytest.mark.parametrize(
    ("replica_id", "wanted", "min_bytes", "allowed"),
    [(-1, 50 << 20, 8 << 20, 4 << 20), (-1, 5000, 1, 5000), (2, 10 << 20, 1, 10 << 20)],
)
async def test_a_client_is_sent_a_few_megabytes_at_a_time_and_a_follower_what_it_wants(
    cluster: Any, client: Any, replica_id: int, wanted: int, min_bytes: int, allowed: int
) -> None:
    cluster.publish_topic("t")
    cluster.replicas.results["fetch"] = [result(T0, b"data")]
    request = fetch(12, ("t", [0]), replica_id=replica_id)
    request = dataclasses.replace(request, max_bytes=wanted, min_bytes=min_bytes)
    await client.call(FETCH, 12, request)
    ((_, params, _),) = cluster.replicas.calls
    assert params.max_bytes == allowed
    assert params.min_bytes == min(min_bytes, allowed)


async def test_unknown_topic_id_is_an_error_of_its_partitions_and_nothing_waits(
    cluster: Any, client: Any
) -> None:
    topic_id = cluster.publish_topic("t")
    cluster.replicas.results["fetch"] = [result(T0, b"data")]

    response = await client.call(
        FETCH, 17, fetch(17, (UNKNOWN_ID, [5, 6]), (topic_id, [0]), (None, [7]))
    )

    unknown, known, zero = response.responses
    assert [(p.partition_index, int(p.error_code)) for p in unknown.partitions] == [
        (5, 100),
        (6, 100),
    ]
    assert unknown.topic_id == UNKNOWN_ID
    assert [(p.partition_index, p.records) for p in known.partitions] == [(0, b"data")]
    assert [int(p.error_code) for p in zero.partitions] == [100]
    ((_, params, entries),) = cluster.replicas.calls
    assert params.max_wait_ms == 0
    assert [entry.topic_partition for entry in entries] == [T0]


async def test_follower_names_itself_and_is_told_where_its_log_diverges(
    cluster: Any, client: Any
) -> None:
    topic_id = cluster.publish_topic("t")
    diverging = DivergingEpoch(epoch=3, end_offset=8)
    cluster.replicas.results["fetch"] = [result(T0, diverging_epoch=diverging)]
    kio = import_module("kio.schema.fetch.v17.request")
    request = fetch(
        17, (topic_id, [0]), replica_state=kio.ReplicaState(replica_id=2, replica_epoch=55)
    )

    response = await client.call(FETCH, 17, request)

    ((_, params, _),) = cluster.replicas.calls
    assert (params.replica_id, params.replica_epoch, params.is_follower) == (2, 55, True)
    (partition,) = response.responses[0].partitions
    assert partition.diverging_epoch.epoch == 3
    assert partition.diverging_epoch.end_offset == 8


async def test_old_follower_names_itself_in_the_request(cluster: Any, client: Any) -> None:
    cluster.replicas.results["fetch"] = [result(T0)]
    await client.call(FETCH, 12, fetch(12, ("t", [0]), replica_id=2))
    ((_, params, _),) = cluster.replicas.calls
    assert (params.replica_id, params.replica_epoch) == (2, -1)


async def test_fetch_session_is_refused_and_closing_one_is_a_full_fetch(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic("t")
    cluster.replicas.results["fetch"] = [result(T0)]

    refused = await client.call(FETCH, 12, fetch(12, ("t", [0]), session_id=5, session_epoch=1))
    assert (int(refused.error_code), refused.responses) == (70, ())
    closing = await client.call(FETCH, 12, fetch(12, ("t", [0]), session_id=5, session_epoch=-1))
    assert (int(closing.error_code), len(closing.responses)) == (0, 1)


async def test_leader_hint_comes_with_the_address_of_the_listener(
    cluster: Any, client: Any
) -> None:
    topic_id = cluster.publish_topic("t", cluster.partition(2, (1, 2), leader_epoch=6))
    cluster.replicas.results["fetch"] = [
        FetchResult(topic_partition=T0, topic_id=None, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    ]
    response = await client.call(FETCH, 16, fetch(16, (topic_id, [0])))
    (partition,) = response.responses[0].partitions
    assert int(partition.error_code) == 6
    assert partition.current_leader.leader_id == 2
    assert partition.current_leader.leader_epoch == 6
    assert [(e.node_id, e.host, e.port) for e in response.node_endpoints] == [(2, "host-2", 9092)]


@pytest.mark.parametrize(
    ("software", "version", "answer"),
    [("sarama", 12, (0, 2**31 - 1)), ("sarama", 10, (6, None)), ("other", 12, (6, -1))],
)
async def test_sarama_is_sent_to_another_replica_instead_of_being_refused(
    cluster: Any, client: Any, software: str, version: int, answer: tuple[int, int | None]
) -> None:
    kio = import_module("kio.schema.api_versions.v3.request")
    named = kio.ApiVersionsRequest(client_software_name=software, client_software_version="1")
    await client.call(API_VERSIONS, 3, named)
    cluster.publish_topic("t", cluster.partition(2, (1, 2), leader_epoch=6))
    refused = FetchResult(
        topic_partition=T0, topic_id=None, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    cluster.replicas.results["fetch"] = [refused]
    response = await client.call(FETCH, version, fetch(version, ("t", [0])))
    (partition,) = response.responses[0].partitions
    replica = getattr(partition, "preferred_read_replica", None)
    assert (int(partition.error_code), replica) == answer

    # Nobody is known who leads: that is an error for everybody.
    cluster.publish_topic("t", cluster.partition(-1, (1, 2), leader_epoch=7))
    response = await client.call(FETCH, version, fetch(version, ("t", [0])))
    assert int(response.responses[0].partitions[0].error_code) == 6


async def test_a_consumer_is_told_the_replica_in_its_rack(cluster: Any, client: Any) -> None:
    cluster.publish_topic("t")
    cluster.replicas.results["fetch"] = [result(T0, preferred_read_replica=2)]
    for version in (11, 12):
        request = fetch(version, ("t", [0]), rack_id="east")
        response = await client.call(FETCH, version, request)

        (_, params, _) = cluster.replicas.calls[-1]
        assert params.rack == "east"
        assert response.responses[0].partitions[0].preferred_read_replica == 2


@pytest.mark.parametrize(
    ("version", "replica_id", "any_replica", "committed_only"),
    [(10, -1, False, True), (11, -1, True, True), (11, 2, False, False), (4, -2, True, False)],
)
async def test_who_may_ask_a_follower_and_who_sees_what_is_not_committed(
    cluster: Any,
    client: Any,
    version: int,
    replica_id: int,
    any_replica: bool,
    committed_only: bool,
) -> None:
    cluster.publish_topic("t")
    cluster.replicas.results["fetch"] = [result(T0)]
    await client.call(FETCH, version, fetch(version, ("t", [0]), replica_id=replica_id))
    ((_, params, _),) = cluster.replicas.calls
    assert (params.any_replica, params.is_consumer) == (any_replica, committed_only)
