"""Quotas of clients: how they are asked for, changed, and told."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import time
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from broker.fetch.fetch_requests import FetchResult
from broker.replica.waiting.append_entries import AppendResult
from jbodlab.controller_api import requests
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.image.settings_image import Quotas
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import Offset, TopicPartition
from tests.broker.api.calls import fetch, metadata, produce
from tests.waiting import called

T0 = TopicPartition("t", 0)
NO_TIME = datetime.timedelta(0)
EXACT, DEFAULT, ANY = 0, 1, 2
QUOTAS: Quotas = {
    frozenset({("user", "u")}): {"producer_byte_rate": 1.0},
    frozenset({("user", "u"), ("client-id", None)}): {"consumer_byte_rate": 2.0},
    frozenset({("client-id", "c")}): {"request_percentage": 3.5, "consumer_byte_rate": 4.0},
    frozenset({("client-id", None)}): {"producer_byte_rate": 5.0},
}


def publish(cluster: Any, quotas: Quotas) -> None:
    image = cluster.cache.image
    cluster.cache.publish(replace(image, quotas=quotas, offset=Offset(image.offset + 1)))


async def described(
    client: Any, version: int, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[str, ...]]:
    kio = import_module(f"kio.schema.describe_client_quotas.v{version}.request")
    request = kio.DescribeClientQuotasRequest(
        components=tuple(
            kio.ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ),
        strict=strict,
    )
    response = await client.call(48, version, request)
    if int(response.error_code):
        return [(ErrorCode(int(response.error_code)).name,)]
    return sorted(
        (
            *(f"{each.entity_type} {each.entity_name}" for each in entry.entity),
            *(f"{each.key}={each.value}" for each in entry.values),
        )
        for entry in response.entries
    )


@pytest.mark.parametrize("version", [0, 1])
async def test_quotas_are_described_by_what_their_entities_must_be(
    cluster: Any, client: Any, version: int
) -> None:
    users = ("user u", "producer_byte_rate=1.0")
    both = ("user u", "client-id None", "consumer_byte_rate=2.0")
    clients = ("client-id c", "consumer_byte_rate=4.0", "request_percentage=3.5")
    default = ("client-id None", "producer_byte_rate=5.0")

    publish(cluster, QUOTAS)
    for components, strict, expected in (
        ((), False, [default, clients, both, users]),
        ((("client-id", ANY, None),), False, [default, clients, both]),
        ((("client-id", ANY, None),), True, [default, clients]),
        ((("client-id", EXACT, "c"),), False, [clients]),
        ((("client-id", DEFAULT, None),), False, [default, both]),
        ((("user", EXACT, "u"), ("client-id", DEFAULT, None)), True, [both]),
        ((("user", EXACT, "v"),), False, []),
        ((("user", EXACT, None),), False, [("INVALID_REQUEST",)]),
        ((("user", ANY, None), ("user", ANY, None)), False, [("INVALID_REQUEST",)]),
        ((("planet", ANY, None),), False, [("UNSUPPORTED_VERSION",)]),
    ):
        assert await described(client, version, *components, strict=strict) == expected


@pytest.mark.parametrize("version", [0, 1])
async def test_a_change_is_answered_when_it_is_in_force_here(
    cluster: Any, client: Any, version: int
) -> None:
    kio = import_module(f"kio.schema.alter_client_quotas.v{version}.request")
    request = kio.AlterClientQuotasRequest(
        entries=(
            kio.EntryData(
                entity=(kio.EntityData(entity_type="client-id", entity_name=None),),
                ops=(kio.OpData(key="producer_byte_rate", value=5.0, remove=False),),
            ),
        ),
        validate_only=False,
    )
    whom = (requests.QuotaEntityName(entity_type="client-id"),)
    cluster.controller.results["AlterClientQuotas"] = requests.AlterClientQuotasResponse(
        entries=(
            requests.AlteredQuota(
                entity=whom, error_code=ErrorCode.INVALID_REQUEST, error_message="no"
            ),
        ),
        metadata_offset=Offset(cluster.cache.image.offset + 1),
    )

    answering = asyncio.create_task(client.call(49, version, request))
    await called(cluster.controller.calls)
    assert not answering.done()
    publish(cluster, QUOTAS)

    (entry,) = (await answering).entries
    assert (int(entry.error_code), entry.error_message) == (42, "no")
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("client-id", None)]
    change = requests.QuotaChange(key="producer_byte_rate", value=5.0)
    assert cluster.controller.calls == [
        requests.AlterClientQuotasRequest(
            entries=(requests.QuotaEntry(entity=whom, ops=(change,)),)
        )
    ]


def stop_the_clock(cluster: Any) -> None:
    """Let no time pass in which a client would be forgiven."""
    cluster.traffic.now_s = itertools.repeat(time.monotonic()).__next__


@pytest.mark.parametrize("version", [3, 8, 9, 12])
async def test_producers_are_told_how_long_to_wait(cluster: Any, client: Any, version: int) -> None:
    publish(cluster, {frozenset({("client-id", "test")}): {"producer_byte_rate": 10_000.0}})
    cluster.replicas.results["append"] = [
        AppendResult(topic_partition=T0, base_offset=0),
        AppendResult(topic_partition=T0, base_offset=0),
    ]
    stop_the_clock(cluster)
    first = await client.call(0, version, produce(version, records=bytes(9_000)))
    assert first.throttle_time == NO_TIME
    second = await client.call(0, version, produce(version, records=bytes(1_500)))
    assert NO_TIME < second.throttle_time <= datetime.timedelta(milliseconds=50)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
async def test_consumers_are_told_how_long_to_wait_and_followers_are_free(
    cluster: Any, client: Any, version: int
) -> None:
    topic_id = cluster.publish_topic("t")
    publish(cluster, {frozenset({("user", None)}): {"consumer_byte_rate": 10_000.0}})
    found = FetchResult(
        topic_partition=T0, topic_id=None, records=(bytes(10_050),), records_size=10_050
    )
    cluster.replicas.results["fetch"] = [found]
    wanted = (topic_id if version >= 13 else "t", [0])
    if version < 15:
        for _ in range(3):
            told = await client.call(1, version, fetch(version, wanted, replica_id=2))
            assert told.throttle_time == NO_TIME
    stop_the_clock(cluster)
    told = await client.call(1, version, fetch(version, wanted))
    assert NO_TIME < told.throttle_time <= datetime.timedelta(milliseconds=5)


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        (ApiKey.PRODUCE, produce(12, records=bytes(100))),
        (ApiKey.FETCH, fetch(12, ("t", [0]))),
        (ApiKey.METADATA, metadata(12, "t")),
    ],
)
async def test_who_keeps_the_broker_busy_is_told_so_in_any_answer(
    cluster: Any, client: Any, key: ApiKey, wanted: Any
) -> None:
    cluster.publish_topic("t")
    cluster.replicas.results["append"] = [AppendResult(topic_partition=T0, base_offset=0)] * 2
    cluster.replicas.results["fetch"] = [FetchResult(topic_partition=T0, topic_id=None)]
    publish(cluster, {frozenset({("client-id", None)}): {"request_percentage": 1_000.0}})
    # Each look at the clock finds it twelve seconds later.
    cluster.traffic.now_s = itertools.count(0.0, 12.0).__next__

    answer = await client.call(key, 12, wanted)

    assert NO_TIME < answer.throttle_time <= datetime.timedelta(milliseconds=200)


@pytest.mark.parametrize("asked", ["create", "delete", "grow"])
async def test_who_changes_too_much_is_told_so_and_its_connection_waits(
    cluster: Any, client: Any, asked: str
) -> None:
    used_up = {
        "error_code": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        "error_message": "used up",
    }
    cluster.controller.results |= {
        "CreateTopics": requests.CreateTopicsResponse(
            topics=(requests.CreatedTopic(name="t", **used_up),), throttle_time_ms=60_000
        ),
        "DeleteTopics": requests.DeleteTopicsResponse(
            responses=(requests.DeletedTopic(name="t", topic_id=None, **used_up),),
            throttle_time_ms=60_000,
        ),
        "CreatePartitions": requests.CreatePartitionsResponse(
            results=(requests.CreatePartitionsResult(name="t", **used_up),),
            throttle_time_ms=60_000,
        ),
    }
    answer = await client.call(*changes(asked))
    (part,) = getattr(answer, {"create": "topics", "delete": "responses"}.get(asked, "results"))
    assert (int(part.error_code), part.error_message) == (89, "used up")
    assert answer.throttle_time == datetime.timedelta(seconds=10)
    with pytest.raises(TimeoutError):
        await client.call(3, 12, metadata(12), timeout_s=0.1)


def changes(asked: str) -> tuple[int, int, Any]:
    """Return the key, version and body of a request that changes a topic."""
    timeout = datetime.timedelta(seconds=5)
    if asked == "create":
        kio = import_module("kio.schema.create_topics.v7.request")
        topic = kio.CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        request = kio.CreateTopicsRequest(topics=(topic,), timeout=timeout, validate_only=False)
        return 19, 7, request
    if asked == "delete":
        kio = import_module("kio.schema.delete_topics.v6.request")
        topics = (kio.DeleteTopicState(name="t", topic_id=None),)
        return 20, 6, kio.DeleteTopicsRequest(topics=topics, timeout=timeout)
    kio = import_module("kio.schema.create_partitions.v3.request")
    topic = kio.CreatePartitionsTopic(name="t", count=2, assignments=None)
    request = kio.CreatePartitionsRequest(topics=(topic,), timeout=timeout, validate_only=False)
    return 37, 3, request


async def test_a_topic_on_demand_is_paid_for_by_its_client_and_waits_for_its_quota(
    cluster: Any, client: Any
) -> None:
    cluster.controller.results["CreateTopics"] = requests.CreateTopicsResponse(
        topics=(requests.CreatedTopic(name="t", error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED),)
    )
    wanted = metadata(13, "t", allow_auto_topic_creation=True)
    while len(cluster.controller.calls) < 2:
        answer = await client.call(3, 13, wanted)
        assert int(answer.topics[0].error_code) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {call.mutator for call in cluster.controller.calls} == {
        requests.Mutator(client_id="test", is_strict=True)
    }
