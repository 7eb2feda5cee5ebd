"""The two responses whose encoders are written by hand have the bytes that kio's writer gives."""

from __future__ import annotations

import datetime
import io
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from broker.api.data.fetch import FetchResponse
from broker.api.data.produce import ProduceResponse
from jbodlab.kafka_wire.api_table import ApiKey, response_encoder
from jbodlab.kafka_wire.fetch_response import FetchedPartition, FetchedTopic
from jbodlab.kafka_wire.leader_hints import CurrentLeader, NodeEndpoint
from jbodlab.kafka_wire.produce_response import ProducedPartition, ProducedTopic
from jbodlab.vocabulary.error_code import ErrorCode as JbodlabErrorCode

TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")
LEADER = CurrentLeader(3, 17)
SECOND = datetime.timedelta(seconds=1)
ENDPOINTS = (NodeEndpoint(3, "broker-3", 9093, None), NodeEndpoint(4, "ö", 1, "rack"))


def by_kio(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def produce_response(version: int, topics: list[ProducedTopic]) -> bytes:
    response = ProduceResponse(responses=topics, node_endpoints=ENDPOINTS, throttle_time=SECOND)
    return b"".join(response_encoder(ApiKey.PRODUCE, version)(response, bytearray()))


def only_known(entity_class: Any, **values: Any) -> Any:
    return entity_class(**{name: v for name, v in values.items() if name in entity_class.__slots__})


@pytest.mark.parametrize("version", range(3, 13))
def test_produce_response_is_what_kio_writes(version: int) -> None:
    kio = import_module(f"kio.schema.produce.v{version}.response")
    message = "not leader any more" if version >= 8 else None
    hint = LEADER if version >= 10 else None
    topics: list[ProducedTopic] = [
        ("small", [ProducedPartition(0, 0, 123456789012, -1, 5)]),
        (
            "größer",
            [
                ProducedPartition(7, 6, -1, -1, -1, message, hint),
                ProducedPartition(8, 0, 1, 1_700_000_000_000, 0),
            ],
        ),
        ("empty", []),
    ]

    expected = kio.ProduceResponse(
        throttle_time=SECOND,
        responses=tuple(
            kio.TopicProduceResponse(
                name=name,
                partition_responses=tuple(
                    only_known(
                        kio.PartitionProduceResponse,
                        index=p.partition_index,
                        error_code=ErrorCode(p.error_code),
                        base_offset=p.base_offset,
                        log_append_time=None
                        if p.log_append_time_ms < 0
                        else datetime.datetime.fromtimestamp(
                            p.log_append_time_ms / 1000, datetime.UTC
                        ),
                        log_start_offset=p.log_start_offset,
                        record_errors=(),
                        error_message=p.error_message,
                        **{}
                        if p.current_leader is None
                        else {
                            "current_leader": kio.LeaderIdAndEpoch(
                                leader_id=p.current_leader.leader_id,
                                leader_epoch=p.current_leader.leader_epoch,
                            )
                        },
                    )
                    for p in partitions
                ),
            )
            for name, partitions in topics
        ),
        **{"node_endpoints": kio_endpoints(kio)} if version >= 10 else {},
    )
    assert produce_response(version, topics) == by_kio(expected)


def test_hints_are_left_out_of_versions_without_them() -> None:
    topics: list[ProducedTopic] = [("t", [ProducedPartition(0, 6, -1, -1, -1, None, LEADER)])]
    bare: list[ProducedTopic] = [("t", [ProducedPartition(0, 6, -1, -1, -1)])]
    for version in (3, 8, 9):
        assert produce_response(version, topics) == produce_response(version, bare)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_response_is_what_kio_writes(version: int) -> None:
    kio = import_module(f"kio.schema.fetch.v{version}.response")
    records = [b"first batch", memoryview(b"second" * 1000)]
    size = sum(len(piece) for piece in records)
    flexible = version >= 12
    topics = [
        FetchedTopic(
            "größer",
            TOPIC_ID,
            [
                FetchedPartition(0, 0, 10, 9, 1, records, size),
                FetchedPartition(1, 6, -1, -1, -1, current_leader=LEADER if flexible else None),
                FetchedPartition(
                    2, 0, 10, 9, 1, diverging_epoch=(4, 1 << 40) if flexible else None
                ),
            ],
        ),
        FetchedTopic("empty", None, []),
    ]

    expected = only_known(
        kio.FetchResponse,
        throttle_time=SECOND,
        error_code=ErrorCode(0),
        session_id=0,
        responses=tuple(
            only_known(
                kio.FetchableTopicResponse,
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(fetched_by_kio(kio, p) for p in topic.partitions),
            )
            for topic in topics
        ),
        **{"node_endpoints": kio_endpoints(kio)} if version >= 16 else {},
    )
    response = FetchResponse(throttle_time=SECOND, responses=topics, node_endpoints=ENDPOINTS)
    buffers = response_encoder(ApiKey.FETCH, version)(response, bytearray(b"head"))
    assert b"".join(buffers) == b"head" + by_kio(expected)
    assert any(piece is records[1] for piece in buffers)


@pytest.mark.parametrize("version", range(7, 19))
def test_error_of_the_whole_fetch_stands_at_the_top(version: int) -> None:
    kio = import_module(f"kio.schema.fetch.v{version}.response")
    expected = kio.FetchResponse(
        throttle_time=datetime.timedelta(0),
        error_code=ErrorCode.fetch_session_id_not_found,
        responses=(),
    )
    response = FetchResponse(error_code=JbodlabErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    got = b"".join(response_encoder(ApiKey.FETCH, version)(response, bytearray()))
    assert got == by_kio(expected)


def kio_endpoints(kio: Any) -> tuple[Any, ...]:
    return tuple(
        kio.NodeEndpoint(node_id=e.node_id, host=e.host, port=e.port, rack=e.rack)
        for e in ENDPOINTS
    )


def fetched_by_kio(kio: Any, p: FetchedPartition) -> Any:
    tags: dict[str, Any] = {}
    if p.diverging_epoch is not None:
        epoch, end_offset = p.diverging_epoch
        tags["diverging_epoch"] = kio.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if p.current_leader is not None:
        tags["current_leader"] = kio.LeaderIdAndEpoch(
            leader_id=p.current_leader.leader_id, leader_epoch=p.current_leader.leader_epoch
        )
    return only_known(
        kio.PartitionData,
        partition_index=p.partition_index,
        error_code=ErrorCode(p.error_code),
        high_watermark=p.high_watermark,
        last_stable_offset=p.last_stable_offset,
        log_start_offset=p.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=b"".join(p.records),
        **tags,
    )
