"""Counters of requests."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.clients.traffic import TopicCount
from broker.fetch.fetch_requests import FetchResult
from broker.replica.waiting.append_entries import AppendResult
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.api.calls import fetch, metadata, produce

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def test_requests_and_their_times_are_counted_waiting_ones_when_they_are_answered(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic("t")
    await client.call(ApiKey.METADATA, 12, metadata(12, "t"))
    assert cluster.traffic.requests[ApiKey.METADATA] == 1
    assert cluster.traffic.times_ms[ApiKey.METADATA].count == 1

    waiting = asyncio.get_running_loop().create_future()
    cluster.replicas.results["fetch"] = waiting
    call = asyncio.create_task(client.call(ApiKey.FETCH, 12, fetch(12, ("t", [0]))))
    async with asyncio.timeout(10):
        while not cluster.traffic.requests[ApiKey.FETCH]:  # noqa: ASYNC110 - a count
            await asyncio.sleep(0.001)
    assert ApiKey.FETCH not in cluster.traffic.times_ms
    waiting.set_result([FetchResult(topic_partition=T0, topic_id=None)])
    await call
    assert cluster.traffic.times_ms[ApiKey.FETCH].count == 1


async def test_requests_that_fail_as_a_whole_are_counted_by_their_error(
    cluster: Any, client: Any
) -> None:
    cluster.replicas.results["fetch"] = ZeroDivisionError()
    await client.call(ApiKey.FETCH, 12, fetch(12, ("t", [0])))
    assert cluster.traffic.errors == {(ApiKey.FETCH, ErrorCode.UNKNOWN_SERVER_ERROR): 1}
    assert cluster.traffic.times_ms[ApiKey.FETCH].count == 1


async def test_bytes_and_records_are_counted_where_they_were_taken(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic("t", cluster.partition(1), cluster.partition(1))
    batch = build_batch([(None, b"value")] * 3, timestamp_ms=1)
    cluster.replicas.results["append"] = [
        AppendResult(topic_partition=T0, base_offset=0),
        AppendResult(topic_partition=T1, error_code=ErrorCode.NOT_ENOUGH_REPLICAS),
    ]
    await client.call(ApiKey.PRODUCE, 9, produce(9, records=batch))
    cluster.replicas.results["fetch"] = [
        FetchResult(topic_partition=T0, topic_id=None, records=(b"12345",), records_size=5)
    ]
    for replica_id in (-1, 2, 2):
        wanted = fetch(12, ("t", [0]), replica_id=replica_id)
        await client.call(ApiKey.FETCH, 12, wanted)

    ((topic, counts),) = cluster.traffic.topics()
    assert topic == "t"
    assert counts == cluster.traffic.total
    assert counts == {
        TopicCount.BYTES_IN: len(batch),
        TopicCount.MESSAGES_IN: 3,
        TopicCount.TOTAL_PRODUCE_REQUESTS: 2,
        TopicCount.FAILED_PRODUCE_REQUESTS: 1,
        TopicCount.BYTES_OUT: 5,
        TopicCount.REPLICATION_BYTES_OUT: 10,
        TopicCount.TOTAL_FETCH_REQUESTS: 3,
    }
