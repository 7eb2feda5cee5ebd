"""ApiVersions, offsets, log directories and producer ids."""

from __future__ import annotations

import asyncio
import datetime
import struct
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from broker.api.api_versions import TELEMETRY
from broker.api.table import APIS
from broker.fetch.fetch_requests import (
    EpochAnswer,
    EpochQuery,
    LogDirDescription,
    OffsetAnswer,
    OffsetQuery,
    ReplicaDescription,
)
from broker.produce.record_deletion import DeletedRecords, RecordDeletion
from jbodlab.kafka_wire.api_table import OWN_MESSAGES, ApiKey
from jbodlab.kafka_wire.headers import request_header
from jbodlab.metadata.image.settings_image import ConfigsImage
from jbodlab.metadata.records.config_records import CLIENT_METRICS_RESOURCE
from jbodlab.storage.log.producer_state import ProducerBatch, ProducerEntry
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, Offset, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def kio_request(name: str, version: int) -> Any:
    return import_module(f"kio.schema.{name}.v{version}.request")


@pytest.mark.parametrize("version", range(5))
async def test_telemetry_is_told_of_while_a_subscription_exists(
    cluster: Any, client: Any, version: int
) -> None:
    """Clients that know of it ask, and log that, although nothing is wanted of them."""
    image = cluster.cache.image
    configs = ConfigsImage(resources={(CLIENT_METRICS_RESOURCE, "all"): {"interval.ms": "1000"}})
    cluster.cache.publish(replace(image, configs=configs, offset=Offset(image.offset + 1)))
    kio = kio_request("api_versions", version)
    software = {"client_software_name": "test-client", "client_software_version": "1.0"}
    response = await client.call(
        18, version, kio.ApiVersionsRequest(**(software if version >= 3 else {}))
    )
    assert {each.api_key for each in response.api_keys} >= set(TELEMETRY)


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_tells_every_api(client: Any, version: int) -> None:
    kio = kio_request("api_versions", version)
    software = {"client_software_name": "test-client", "client_software_version": "1.0"}
    response = await client.call(
        18, version, kio.ApiVersionsRequest(**(software if version >= 3 else {}))
    )
    assert int(response.error_code) == 0
    told = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}
    hidden = {*OWN_MESSAGES, *TELEMETRY}
    assert told == {int(key): api.versions for key, api in APIS.items() if key not in hidden}
    assert told[ApiKey.PRODUCE] == (0, 12)
    assert told[ApiKey.FETCH] == (4, 17)


@pytest.mark.parametrize("name", ["", "-x", "a b", "ä"])
async def test_malformed_software_name_is_refused(client: Any, name: str) -> None:
    kio = kio_request("api_versions", 3)
    request = kio.ApiVersionsRequest(client_software_name=name, client_software_version="1")
    response = await client.call(18, 3, request)
    assert (int(response.error_code), response.api_keys) == (42, ())


async def raw_exchange(cluster: Any, message: bytes) -> bytes:
    """Send one frame; returns the frame that comes back, empty if the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.port)
    try:
        writer.write(struct.pack(">i", len(message)) + message)
        async with asyncio.timeout(10):
            head = await reader.read(4)
            return await reader.readexactly(struct.unpack(">i", head)[0]) if head else b""
    finally:
        writer.close()


async def test_api_versions_of_the_future_gets_the_range_in_a_version_0_body(
    cluster: Any, client: Any
) -> None:
    answer = await raw_exchange(cluster, bytes.fromhex("0012 0063 00000007 0001 78 00"))
    assert answer == bytes.fromhex("00000007 0023 00000001 0012 0000 0004")


@pytest.mark.parametrize(
    ("api_key", "version"), [(0, 2), (0, 13), (1, 3), (23, 9), (999, 0), (3, 14), (18, -1)]
)
async def test_api_or_version_that_is_not_served_closes_the_connection(
    cluster: Any, client: Any, api_key: int, version: int
) -> None:
    answer = await raw_exchange(cluster, struct.pack(">hhih", api_key, version, 1, -1) + bytes(20))
    if api_key == 18:
        assert answer[4:6] == b"\x00\x23"
    else:
        assert answer == b""
    kio = kio_request("api_versions", 0)
    assert await client.call(18, 0, kio.ApiVersionsRequest())


async def test_body_that_cannot_be_read_closes_the_connection(cluster: Any, client: Any) -> None:
    huge_array = request_header(3, 1, 1, "x") + b"\x7f\xff\xff\xff"
    assert await raw_exchange(cluster, huge_array) == b""


@pytest.mark.parametrize("version", [1, 3, 7, 10])
async def test_offsets_are_asked_of_the_replicas(cluster: Any, client: Any, version: int) -> None:
    kio = kio_request("list_offsets", version)
    cluster.replicas.results["list_offsets"] = [
        OffsetAnswer(topic_partition=T0, timestamp=5, offset=6, leader_epoch=7),
        OffsetAnswer(topic_partition=T1, error_code=ErrorCode.OFFSET_NOT_AVAILABLE),
    ]
    epoch = {"current_leader_epoch": 3} if version >= 4 else {}
    timeout = {"timeout": datetime.timedelta(seconds=1)} if version >= 10 else {}
    response = await client.call(
        2,
        version,
        kio.ListOffsetsRequest(
            replica_id=-1,
            topics=(
                kio.ListOffsetsTopic(
                    name="t",
                    partitions=(
                        kio.ListOffsetsPartition(partition_index=0, timestamp=-2, **epoch),
                        kio.ListOffsetsPartition(partition_index=1, timestamp=-1, **epoch),
                    ),
                ),
            ),
            **({"isolation_level": 1} if version >= 2 else {}),
            **timeout,
        ),
    )
    asked = epoch.get("current_leader_epoch", -1)
    assert cluster.replicas.calls == [
        (
            "list_offsets",
            [
                OffsetQuery(topic_partition=T0, timestamp=-2, current_leader_epoch=asked),
                OffsetQuery(topic_partition=T1, timestamp=-1, current_leader_epoch=asked),
            ],
            BrokerId(-1),
            1 if version >= 2 else 0,
        )
    ]
    first, second = response.topics[0].partitions
    assert (first.timestamp, first.offset, int(first.error_code)) == (5, 6, 0)
    assert (second.timestamp, second.offset, int(second.error_code)) == (-1, -1, 78)
    if version >= 4:
        assert first.leader_epoch == 7


async def test_end_of_a_leader_epoch_is_asked_of_the_replicas(cluster: Any, client: Any) -> None:
    kio = kio_request("offset_for_leader_epoch", 4)
    cluster.replicas.results["epoch_end_offset"] = EpochAnswer(
        topic_partition=T0, leader_epoch=2, end_offset=9
    )
    response = await client.call(
        23,
        4,
        kio.OffsetForLeaderEpochRequest(
            topics=(
                kio.OffsetForLeaderTopic(
                    topic="t",
                    partitions=(
                        kio.OffsetForLeaderPartition(
                            partition=0, current_leader_epoch=5, leader_epoch=3
                        ),
                    ),
                ),
            )
        ),
    )
    query = EpochQuery(topic_partition=T0, leader_epoch=3, current_leader_epoch=5)
    assert cluster.replicas.calls == [("epoch_end_offset", query)]
    (partition,) = response.topics[0].partitions
    assert (partition.leader_epoch, partition.end_offset) == (2, 9)


@pytest.mark.parametrize("version", range(1, 6))
async def test_log_dirs_show_their_replicas_and_which_are_offline(
    cluster: Any, client: Any, version: int
) -> None:
    kio = kio_request("describe_log_dirs", version)
    cluster.replicas.results["describe_log_dirs"] = [
        LogDirDescription(
            path="/d1",
            replicas=(
                ReplicaDescription(topic_partition=T1, size_bytes=10, offset_lag=0),
                ReplicaDescription(topic_partition=T0, size_bytes=20, offset_lag=3, is_future=True),
            ),
            total_bytes=1000,
            usable_bytes=500,
        ),
        LogDirDescription(path="/d2", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    topic = kio.DescribableLogDirTopic(topic="t", partitions=(0, 1))
    response = await client.call(35, version, kio.DescribeLogDirsRequest(topics=(topic, topic)))
    await client.call(35, version, kio.DescribeLogDirsRequest(topics=None))

    assert cluster.replicas.calls == [
        ("describe_log_dirs", {"t": {0, 1}}),
        ("describe_log_dirs", None),
    ]
    good, bad = response.results
    assert (good.log_dir, int(good.error_code)) == ("/d1", 0)
    assert [
        (p.partition_index, p.partition_size, p.offset_lag, p.is_future_key)
        for p in good.topics[0].partitions
    ] == [(1, 10, 0, False), (0, 20, 3, True)]
    assert (bad.log_dir, int(bad.error_code), bad.topics) == ("/d2", 56, ())
    if version >= 4:
        assert (good.total_bytes, good.usable_bytes) == (1000, 500)
        assert (bad.total_bytes, bad.usable_bytes) == (-1, -1)


def init_producer_id(transactional_id: str | None = None) -> Any:
    return kio_request("init_producer_id", 4).InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=datetime.timedelta(minutes=1),
        producer_id=-1,
        producer_epoch=-1,
    )


async def test_every_producer_gets_an_id_of_its_own_across_blocks(
    cluster: Any, client: Any
) -> None:
    ids = []
    for _ in range(1100):
        response = await client.call(22, 4, init_producer_id())
        assert (int(response.error_code), response.producer_epoch) == (0, 0)
        ids.append(response.producer_id)
    assert ids == list(range(5000, 6100))
    assert all(call.broker_epoch == 77 for call in cluster.controller.calls)
    assert len(cluster.controller.calls) == 2, "the second block comes before it is needed"


async def test_clients_that_ask_together_share_one_block(cluster: Any, client: Any) -> None:
    clients = [await cluster.connect() for _ in range(10)]
    responses = await asyncio.gather(*(c.call(22, 4, init_producer_id()) for c in clients))
    for each in clients:
        each.close()
    assert len({response.producer_id for response in responses}) == 10
    assert len(cluster.controller.calls) == 1


async def test_producer_id_without_a_controller_is_an_error_that_clients_retry(
    cluster: Any, client: Any
) -> None:
    cluster.controller.available = False
    response = await client.call(22, 4, init_producer_id())
    assert (int(response.error_code), response.producer_id) == (14, -1)
    cluster.controller.available = True
    response = await client.call(22, 4, init_producer_id())
    assert int(response.error_code) == 0


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ("enable2_pc", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("keep_prepared_txn", ErrorCode.UNSUPPORTED_VERSION),
    ],
)
@pytest.mark.parametrize("transactional_id", [None, "x"])
async def test_two_phase_commit_is_refused_by_its_name(
    client: Any, wanted: str, error: ErrorCode, transactional_id: str | None
) -> None:
    asked = {"enable2_pc": False, "keep_prepared_txn": False} | {wanted: True}
    request = kio_request("init_producer_id", 6).InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=datetime.timedelta(minutes=1),
        producer_id=-1,
        producer_epoch=-1,
        **asked,
    )
    response = await client.call(22, 6, request)
    assert (int(response.error_code), response.producer_id) == (error, -1)


async def test_members_of_share_groups_are_refused_in_words(client: Any) -> None:
    kio = kio_request("share_group_heartbeat", 1)
    asked = kio.ShareGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rack_id=None,
        subscribed_topic_names=("t",),
    )
    # Where it is not advertised librdkafka asks for the coordinator again, for ever.
    told = await client.call(76, 1, asked)
    assert int(told.error_code) == 35
    assert told.error_message == "this broker does not support share groups"


@pytest.mark.parametrize("version", range(3))
async def test_records_are_deleted_by_the_replicas(cluster: Any, client: Any, version: int) -> None:
    kio = kio_request("delete_records", version)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    cluster.replicas.results["delete_records"] = [
        DeletedRecords(topic_partition=first, low_watermark=7),
        DeletedRecords(topic_partition=second, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
    ]
    partitions = tuple(
        kio.DeleteRecordsPartition(partition_index=index, offset=offset)
        for index, offset in ((0, 7), (1, -1))
    )
    request = kio.DeleteRecordsRequest(
        topics=(kio.DeleteRecordsTopic(name="t", partitions=partitions),),
        timeout=datetime.timedelta(milliseconds=250),
    )

    response = await client.call(21, version, request)

    assert cluster.replicas.calls == [
        (
            "delete_records",
            [
                RecordDeletion(topic_partition=first, offset=7),
                RecordDeletion(topic_partition=second, offset=-1),
            ],
            250,
        )
    ]
    (topic,) = response.topics
    assert [(p.partition_index, p.low_watermark, int(p.error_code)) for p in topic.partitions] == [
        (0, 7, 0),
        (1, -1, 1),
    ]


async def test_producers_of_a_partition_are_described(cluster: Any, client: Any) -> None:
    kio = kio_request("describe_producers", 0)
    batches = (ProducerBatch(last_sequence=9, last_offset=9, offset_delta=4, timestamp=77),)
    cluster.replicas.results["producers"] = {
        TopicPartition("t", 0): [
            (5, ProducerEntry(epoch=2, batches=batches, last_timestamp=77)),
            (6, ProducerEntry(epoch=0, coordinator_epoch=3, transaction_start=12)),
        ]
    }
    request = kio.DescribeProducersRequest(
        topics=(kio.TopicRequest(name="t", partition_indexes=(0, 1)),)
    )

    (topic,) = (await client.call(61, 0, request)).topics

    found, missing = topic.partitions
    assert [
        (
            p.producer_id,
            p.producer_epoch,
            p.last_sequence,
            p.last_timestamp,
            p.coordinator_epoch,
            p.current_txn_start_offset,
        )
        for p in found.active_producers
    ] == [(5, 2, 9, 77, -1, -1), (6, 0, -1, -1, 3, 12)]
    assert int(missing.error_code) == 3


@pytest.mark.parametrize("version", [1, 3])
async def test_acls_are_refused_as_by_a_broker_without_an_authorizer(
    client: Any, version: int
) -> None:
    names = {"resource_type": 2, "resource_pattern_type": 3, "principal": "User:a"}
    rest = {"host": "*", "operation": 3, "permission_type": 3}
    of_filter = {
        "resource_type_filter": 2,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    kio = kio_request("describe_acls", version)
    told = await client.call(29, version, kio.DescribeAclsRequest(**of_filter))
    said = "No Authorizer is configured on the broker"
    assert (int(told.error_code), told.error_message, told.resources) == (54, said, ())

    kio = kio_request("create_acls", version)
    creation = kio.AclCreation(resource_name="t", **names, **rest)
    told = await client.call(30, version, kio.CreateAclsRequest(creations=(creation,) * 2))
    assert [(int(r.error_code), r.error_message) for r in told.results] == [(54, said)] * 2

    kio = kio_request("delete_acls", version)
    wanted = kio.DeleteAclsFilter(**of_filter)
    told = await client.call(31, version, kio.DeleteAclsRequest(filters=(wanted,)))
    assert [(int(r.error_code), r.matching_acls) for r in told.filter_results] == [(54, ())]
