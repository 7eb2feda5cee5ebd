from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from broker.api import passed_on
from broker.replica.client_requests import AppendEntry, AppendResult
from jbodlab.error_code import ErrorCode
from jbodlab.ids import BrokerId, TopicPartition
from jbodlab.image.cluster_image import ClusterImage
from jbodlab.protocol.record_batch import build_batch
from jbodlab.records.cluster_records import BrokerEndpoint
from tests.broker.api.conftest import LISTENER, Cluster, serving

PRODUCE = 0
T0 = TopicPartition("t", 0)
BATCH = build_batch([(None, b"x")], timestamp_ms=1)
IDEMPOTENT = build_batch(
    [(None, b"x")], timestamp_ms=1, producer_id=9, producer_epoch=0, base_sequence=0
)
REFUSED = (6, -1)
WRITTEN = (0, 40)


def produce(version: int, records: bytes = BATCH) -> Any:
    kio = import_module(f"kio.schema.produce.v{version}.request")
    data = kio.PartitionProduceData(index=0, records=records)
    return kio.ProduceRequest(
        acks=-1,
        timeout=datetime.timedelta(milliseconds=1500),
        topic_data=(kio.TopicProduceData(name="t", partition_data=(data,)),),
    )


async def answer(client: Any, version: int, records: bytes = BATCH) -> tuple[int, int]:
    response = await client.call(PRODUCE, version, produce(version, records))
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return int(partition.error_code), partition.base_offset


@asynccontextmanager
async def another_leader(cluster: Any) -> AsyncIterator[Cluster]:
    """A second broker that leads the partition, which the first one refuses."""
    refused = AppendResult(topic_partition=T0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster.replicas.results["append"] = [refused]
    async with serving(Cluster(), auto_create_topics=False) as leader:
        leader.replicas.results["append"] = [AppendResult(topic_partition=T0, base_offset=40)]
        image = cluster.cache.image
        brokers = dict(image.cluster.brokers)
        endpoint = BrokerEndpoint(name=LISTENER, host="127.0.0.1", port=leader.port)
        brokers[BrokerId(2)] = replace(brokers[BrokerId(2)], endpoints=(endpoint,))
        cluster._publish(replace(image, cluster=ClusterImage(brokers=brokers)))
        cluster.publish_topic("t", cluster.partition(2, (1, 2), leader_epoch=9))
        yield leader


def test_a_producer_that_comes_back_is_answered_by_the_leader(run: Callable[..., None]) -> None:
    async def scenario(cluster: Any, client: Any) -> None:
        async with another_leader(cluster) as leader:
            assert await answer(client, 7) == REFUSED
            assert leader.replicas.calls == [], "who is refused once may look for the leader"
            assert await answer(client, 7) == WRITTEN
            assert leader.replicas.calls == [
                ("append", [AppendEntry(topic_partition=T0, records=BATCH)], -1, 1500)
            ]

            other = await cluster.connect()
            assert await answer(other, 7) == REFUSED, "each client is told"
            other.close()

    run(scenario)


@pytest.mark.parametrize(("version", "records"), [(10, BATCH), (7, IDEMPOTENT)])
def test_who_is_told_the_leader_or_counts_its_batches_is_refused_again(
    run: Callable[..., None], version: int, records: bytes
) -> None:
    async def scenario(cluster: Any, client: Any) -> None:
        async with another_leader(cluster) as leader:
            assert await answer(client, version, records) == REFUSED
            assert await answer(client, version, records) == REFUSED
            assert leader.replicas.calls == []

    run(scenario)


def test_the_next_leader_is_told_first_and_passing_on_ends(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: Any, client: Any) -> None:
        async with another_leader(cluster):
            assert await answer(client, 7) == REFUSED
            cluster.publish_topic("t", cluster.partition(2, (1, 2), leader_epoch=10))
            assert await answer(client, 7) == REFUSED
            assert await answer(client, 7) == WRITTEN
            monkeypatch.setattr(passed_on, "PASSED_ON_S", 0.0)
            assert await answer(client, 7) == REFUSED

    run(scenario)


def test_a_leader_that_is_not_reached_leaves_the_refusal(run: Callable[..., None]) -> None:
    async def scenario(cluster: Any, client: Any) -> None:
        async with another_leader(cluster):
            assert await answer(client, 7) == REFUSED
        # Its listener is closed now.
        assert await answer(client, 7) == REFUSED
        assert await asyncio.wait_for(answer(client, 7), 10) == REFUSED

    run(scenario)
