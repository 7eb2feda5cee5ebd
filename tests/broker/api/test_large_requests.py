"""No request keeps the loop for itself."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.cluster.describe_configs import DescribeConfigsApi
from broker.api.cluster.metadata import MetadataApi
from broker.api.data.fetch import FetchApi
from broker.api.data.offsets import ListOffsetsApi
from broker.api.directories.alter_log_dirs import AlterReplicaLogDirsApi
from broker.bounds.limits import FETCHED_AT_ONCE, OFFSETS_AT_ONCE
from broker.clients.client_quotas import ClientQuotas
from broker.clients.traffic import Traffic
from broker.fetch.fetch_requests import FetchEntry, FetchResult, OffsetAnswer, OffsetQuery
from broker.metadata.dynamic_config import DynamicConfig
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.config.node_config import read_values
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.headers import RequestHeader
from jbodlab.runtime.machine import system_environment
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.rights import AllRights
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, TopicPartition
from tests.waiting import DEADLINE_S

METADATA, VERSION = ApiKey.METADATA, 1
WHO = Session(listener_name="CLIENTS", peer="10.0.0.1:1")
HEADER = RequestHeader(METADATA, VERSION, 1, "tester", 0)


def made_of(**some: Any) -> Any:
    """Return those parts of a broker that a handler is made of."""
    return SimpleNamespace(rights=AllRights(), **some)


def messages(api: str, version: int) -> Any:
    return import_module(f"kio.schema.{api}.v{version}.request")


async def test_answer_in_parts_shows_one_state_of_the_cluster(cluster: Any, client: Any) -> None:
    for name in "ab":
        cluster.publish_topic(name, cluster.partition(2, (2,)))
    asked = messages("metadata", VERSION).MetadataRequest(topics=None)
    answer = MetadataApi(
        made_of(cache=cluster.cache, cluster_id="c", auto_create_topics=False)
    ).answer(asked, RequestContext(HEADER, WHO))
    parts = iter(answer.parts)
    first = next(parts)

    cluster.delete_topic("a")
    cluster.delete_topic("b")

    told = [part for part in (first, *parts) if part is not None]
    assert [part[2:5] for part in told] == [b"\0\1a", b"\0\1b"]


async def test_settings_of_topics_without_their_own_are_described_once(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic("a", cluster.partition(2, (2,)))
    cluster.publish_topic("b", cluster.partition(2, (2,)))
    kio = messages("describe_configs", 4)

    def wanted(name: str, *keys: str) -> Any:
        return kio.DescribeConfigsResource(
            resource_type=2, resource_name=name, configuration_keys=keys or None
        )

    asked = kio.DescribeConfigsRequest(
        resources=(wanted("a"), wanted("b"), wanted("b", "retention.ms")),
        include_synonyms=True,
        include_documentation=False,
    )
    own = DynamicConfig(BrokerId(1), read_values({})[0], [])
    api = DescribeConfigsApi(made_of(cache=cluster.cache, broker_id=BrokerId(1), configs=own))

    first, second, third = api.answer(asked, RequestContext(HEADER, WHO)).parts

    assert first.configs is second.configs
    assert (first.resource_name, second.resource_name) == ("a", "b")
    assert [each.name for each in third.configs] == ["retention.ms"]


class Answering:
    """Replicas that answer whatever they are asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def list_offsets(
        self, queries: list[OffsetQuery], replica_id: int, isolation: int
    ) -> list[OffsetAnswer]:
        self.asked.append(len(queries))
        return [
            OffsetAnswer(topic_partition=each.topic_partition, offset=each.topic_partition[1])
            for each in queries
        ]

    def fetch(self, params: Any, entries: list[FetchEntry]) -> asyncio.Future[list[FetchResult]]:
        self.asked.append(len(entries))
        future = asyncio.get_running_loop().create_future()
        future.set_result(
            [FetchResult(topic_partition=each.topic_partition, topic_id=None) for each in entries]
        )
        return future


async def test_offsets_of_many_partitions_are_looked_up_little_by_little() -> None:
    kio = messages("list_offsets", 7)
    count, replicas = 2 * OFFSETS_AT_ONCE + 1, Answering()
    partitions = tuple(
        kio.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=None)
        for n in range(count)
    )
    topic = kio.ListOffsetsTopic(name="t", partitions=partitions)
    asked = kio.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic, topic))

    later = ListOffsetsApi(
        made_of(offsets=replicas, cache=MetadataCache(BrokerId(1), "CLIENTS"))
    ).answer(asked, RequestContext(HEADER, WHO))
    assert isinstance(later, Later)
    found: Any = later.finish(await later.future)

    assert max(replicas.asked) == OFFSETS_AT_ONCE
    for answer in found.topics:
        assert [each.offset for each in answer.partitions] == list(range(count))


@pytest.mark.parametrize(
    "count", [1, FETCHED_AT_ONCE - 1, FETCHED_AT_ONCE, 2 * FETCHED_AT_ONCE + 1]
)
async def test_fetch_of_many_partitions_is_one_fetch(count: int) -> None:
    kio = messages("fetch", 12)
    partition = kio.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1,
    )
    asked = kio.FetchRequest(
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        forgotten_topics_data=(),
        rack_id="",
        topics=(kio.FetchTopic(topic="t", partitions=(partition,) * count),),
    )
    replicas = Answering()
    api = FetchApi(
        made_of(
            fetches=replicas,
            sessions=replicas,
            cache=MetadataCache(BrokerId(1), "CLIENTS"),
            broker_id=BrokerId(1),
            traffic=Traffic(system_environment().monotonic_s),
            quotas=ClientQuotas(dict),
        )
    )

    later = api.answer(asked, RequestContext(RequestHeader(1, 12, 1, "t", 0), WHO))
    assert isinstance(later, Later)
    await asyncio.wait_for(later.future, DEADLINE_S)

    assert replicas.asked == [count]


class Refusing:
    """Replicas that cannot be moved, but the first."""

    def alter(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        if topic_partition.partition == 0:
            return ErrorCode.NONE
        return ErrorCode.LOG_DIR_NOT_FOUND if path == "/b" else ErrorCode.REPLICA_NOT_AVAILABLE


def test_moves_that_are_refused_take_one_line_of_the_log_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kio = messages("alter_replica_log_dirs", 2)
    dirs = [
        kio.AlterReplicaLogDir(
            path=path, topics=(kio.AlterReplicaLogDirTopic(name="t", partitions=partitions),)
        )
        for path, partitions in (("/a", tuple(range(1_000))), ("/b", (1, 2, 1_000)))
    ]
    asked = kio.AlterReplicaLogDirsRequest(dirs=tuple(dirs))
    api = AlterReplicaLogDirsApi(made_of(move_requests=Refusing()))

    with caplog.at_level(logging.INFO, "broker.api"):
        answer = api.answer(asked, RequestContext(HEADER, WHO))
        (topic,) = answer.finish(list(answer.parts)).results

    codes = Counter(each.error_code for each in topic.partitions)
    assert codes == {
        ErrorCode.NONE: 1,
        ErrorCode.LOG_DIR_NOT_FOUND: 3,
        ErrorCode.REPLICA_NOT_AVAILABLE: 997,
    }
    assert [record.getMessage() for record in caplog.records] == [
        "cannot move t-1 and 2 others: LOG_DIR_NOT_FOUND",
        "cannot move t-3 and 996 others: REPLICA_NOT_AVAILABLE",
    ]
