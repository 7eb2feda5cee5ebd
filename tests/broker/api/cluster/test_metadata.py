from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from broker.api.cluster.encoded_topics import EncodedTopics, TopicVariant
from broker.bounds.limits import ENCODED_KINDS_MAX
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.controller_api import requests
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.api.calls import metadata
from tests.waiting import called, turns

METADATA = 3
CLUSTER_ID = "JGpFIlgLQVmmBZ4FPbLkkg"


@pytest.mark.parametrize("version", [1, 4, 5, 8, 9, 12, 13])
async def test_live_brokers_have_the_address_of_the_listener(client: Any, version: int) -> None:
    response = await client.call(METADATA, version, metadata(version, all_topics=True))
    assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "host-1", 9091, None),
        (2, "host-2", 9092, "rack-2"),
    ]
    assert response.controller_id in (1, 2)
    if version >= 2:
        assert response.cluster_id == CLUSTER_ID


async def test_topic_with_its_leaders_and_offline_replicas(cluster: Any, client: Any) -> None:
    topic_id = cluster.publish_topic(
        "t",
        cluster.partition(2, (2, 1, 3), isr=(2, 1), leader_epoch=4),
        cluster.partition(-1, (1, 2), isr=(1,), leader_epoch=5, failed=(1,)),
        cluster.partition(3, (3, 1), leader_epoch=6),
    )

    response = await client.call(METADATA, 13, metadata(13, "t"))

    (topic,) = response.topics
    assert (int(topic.error_code), topic.name, topic.topic_id) == (0, "t", topic_id)
    told = [
        (
            p.partition_index,
            int(p.error_code),
            p.leader_id,
            p.leader_epoch,
            p.replica_nodes,
            p.isr_nodes,
            p.offline_replicas,
        )
        for p in topic.partitions
    ]
    assert told == [
        (0, 0, 2, 4, (2, 1, 3), (2, 1), (3,)),
        (1, 5, -1, 5, (1, 2), (1,), (1,)),
        (2, 5, -1, 6, (3, 1), (3, 1), (3,)),
    ]


async def test_empty_list_means_all_in_version_0_and_none_later(cluster: Any, client: Any) -> None:
    cluster.publish_topic("a")
    cluster.publish_topic("b")
    for version, wanted, names in (
        (0, {}, ["a", "b"]),
        (1, {"all_topics": True}, ["a", "b"]),
        (1, {}, []),
        (13, {"all_topics": True}, ["a", "b"]),
        (13, {}, []),
    ):
        response = await client.call(METADATA, version, metadata(version, **wanted))
        assert [topic.name for topic in response.topics] == names


@pytest.mark.parametrize("name", [None, "", "other"])
async def test_topic_by_id_whatever_name_stands_beside_it(
    cluster: Any, client: Any, name: str | None
) -> None:
    topic_id = cluster.publish_topic("t")
    unknown = UUID(int=12345)
    wanted = metadata(12, topic_id, unknown, name_beside_id=name)
    response = await client.call(METADATA, 12, wanted)
    assert [(int(t.error_code), t.name, t.topic_id) for t in response.topics] == [
        (0, "t", topic_id),
        (100, None, unknown),
    ]


async def test_topic_ids_are_refused_where_no_broker_looked_at_them(
    cluster: Any, client: Any
) -> None:
    wanted = metadata(11, cluster.publish_topic("t"), name_beside_id="t")
    response = await client.call(METADATA, 11, wanted)
    assert [int(topic.error_code) for topic in response.topics] == [42]


async def test_everything_is_permitted_to_who_asks(cluster: Any, client: Any) -> None:
    cluster.publish_topic("t")
    for asked, on_topic, on_cluster in (
        (True, 3576, 8096),
        (False, -2147483648, -2147483648),
    ):
        response = await client.call(
            METADATA,
            9,
            metadata(
                9,
                "t",
                include_topic_authorized_operations=asked,
                include_cluster_authorized_operations=asked,
            ),
        )
        assert response.cluster_authorized_operations == on_cluster
        assert [t.topic_authorized_operations for t in response.topics] == [on_topic]

        kio = import_module("kio.schema.describe_cluster.v2.request")
        asking = kio.DescribeClusterRequest(
            include_cluster_authorized_operations=asked, include_fenced_brokers=False
        )
        described = await client.call(60, 2, asking)
        assert described.cluster_authorized_operations == on_cluster


async def test_missing_topic_is_unknown_when_the_client_does_not_want_it_created(
    cluster: Any, client: Any
) -> None:
    response = await client.call(METADATA, 13, metadata(13, "t"))
    assert [int(topic.error_code) for topic in response.topics] == [3]
    assert cluster.controller.calls == []


@pytest.mark.stage(auto_create_topics=False)
async def test_missing_topic_is_unknown_when_the_broker_creates_none(
    cluster: Any, client: Any
) -> None:
    wanted = metadata(13, "t", allow_auto_topic_creation=True)
    response = await client.call(METADATA, 13, wanted)
    assert [int(topic.error_code) for topic in response.topics] == [3]
    assert cluster.controller.calls == []


@pytest.mark.parametrize("version", [1, 13])
async def test_missing_topic_is_created_once(cluster: Any, client: Any, version: int) -> None:
    cluster.controller.results["CreateTopics"] = requests.CreateTopicsResponse(
        topics=(requests.CreatedTopic(name="t"),)
    )
    creation = {"allow_auto_topic_creation": True} if version >= 4 else {}
    wanted = metadata(version, "t", **creation)
    first = await client.call(METADATA, version, wanted)
    assert [int(topic.error_code) for topic in first.topics] == [3]
    await called(cluster.controller.calls)
    (request,) = cluster.controller.calls
    assert request.topics == (requests.NewTopic(name="t"),)

    cluster.publish_topic("t")
    second = await client.call(METADATA, version, wanted)
    assert [int(topic.error_code) for topic in second.topics] == [0]
    assert len(cluster.controller.calls) == 1


async def test_refused_creation_is_told_once_and_then_tried_again(
    cluster: Any, client: Any
) -> None:
    refusal = requests.CreatedTopic(
        name="t", error_code=ErrorCode.INVALID_REPLICATION_FACTOR, error_message="only one"
    )
    cluster.controller.results["CreateTopics"] = requests.CreateTopicsResponse(topics=(refusal,))
    wanted = metadata(13, "t", allow_auto_topic_creation=True)
    codes = []
    for attempt in (1, 1, 2):
        response = await client.call(METADATA, 13, wanted)
        codes += [int(topic.error_code) for topic in response.topics]
        async with asyncio.timeout(10):
            while len(cluster.controller.calls) < attempt:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await turns()
    assert codes == [3, 38, 3]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250, "__cluster_metadata"])
async def test_impossible_name_is_refused_at_once(cluster: Any, client: Any, name: str) -> None:
    wanted = metadata(13, name, allow_auto_topic_creation=True)
    response = await client.call(METADATA, 13, wanted)
    assert [int(topic.error_code) for topic in response.topics] == [17]
    assert cluster.controller.calls == []


async def test_describe_cluster_lists_fenced_brokers_when_asked(client: Any) -> None:
    kio = import_module("kio.schema.describe_cluster.v2.request")
    for include, expected in ((False, [(1, False), (2, False)]), (True, [(1, False),
                              (2, False), (3, True)])):  # fmt: skip
        response = await client.call(
            60,
            2,
            kio.DescribeClusterRequest(
                include_cluster_authorized_operations=False, include_fenced_brokers=include
            ),
        )
        assert [(b.broker_id, b.is_fenced) for b in response.brokers] == expected
        assert response.cluster_id == CLUSTER_ID
    controllers = await client.call(
        60,
        2,
        kio.DescribeClusterRequest(
            include_cluster_authorized_operations=False,
            endpoint_type=2,
            include_fenced_brokers=False,
        ),
    )
    assert int(controllers.error_code) == 114


async def test_describe_topic_partitions_goes_page_by_page(cluster: Any, client: Any) -> None:
    kio = import_module("kio.schema.describe_topic_partitions.v0.request")
    cluster.publish_topic("b", *(cluster.partition(1) for _ in range(5)))
    cluster.publish_topic("a", cluster.partition(2, (2, 1), failed=(1,)))
    cursor, pages = None, []
    while True:
        response = await client.call(
            75,
            0,
            kio.DescribeTopicPartitionsRequest(
                topics=(), response_partition_limit=3, cursor=cursor
            ),
        )
        pages.append([(t.name, [p.partition_index for p in t.partitions]) for t in response.topics])
        if response.next_cursor is None:
            break
        cursor = kio.Cursor(
            topic_name=response.next_cursor.topic_name,
            partition_index=response.next_cursor.partition_index,
        )
    assert pages == [[("a", [0]), ("b", [0, 1])], [("b", [2, 3, 4])]]

    named = await client.call(
        75,
        0,
        kio.DescribeTopicPartitionsRequest(
            topics=(kio.TopicRequest(name="a"), kio.TopicRequest(name="zz"))
        ),
    )
    a, zz = named.topics
    assert (a.partitions[0].leader_id, a.partitions[0].offline_replicas) == (2, (1,))
    assert (zz.name, int(zz.error_code)) == ("zz", 3)


@pytest.mark.parametrize("name", ["..", "a b", "x" * 250, "a/b"])
async def test_impossible_names_are_described_as_such(client: Any, name: str) -> None:
    kio = import_module("kio.schema.describe_topic_partitions.v0.request")
    request = kio.DescribeTopicPartitionsRequest(topics=(kio.TopicRequest(name=name),))

    (told,) = (await client.call(75, 0, request)).topics

    assert (told.name, int(told.error_code)) == (name, 17)


@pytest.mark.parametrize(
    ("names", "cursor"), [(("a",), ("b", 0)), (("a",), ("a", -1)), ((), ("a", -1))]
)
async def test_cursors_that_no_response_names_are_refused(
    cluster: Any, client: Any, names: tuple[str, ...], cursor: tuple[str, int]
) -> None:
    kio = import_module("kio.schema.describe_topic_partitions.v0.request")
    for name in "ab":
        cluster.publish_topic(name, cluster.partition(1))

    response = await client.call(
        75,
        0,
        kio.DescribeTopicPartitionsRequest(
            topics=tuple(kio.TopicRequest(name=each) for each in names),
            cursor=kio.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        ),
    )

    assert [(each.name, int(each.error_code)) for each in response.topics] == [
        (each, 42) for each in names
    ]


async def test_cursor_of_a_topic_that_was_deleted_goes_on_behind_it(
    cluster: Any, client: Any
) -> None:
    kio = import_module("kio.schema.describe_topic_partitions.v0.request")
    for name in "ac":
        cluster.publish_topic(name, cluster.partition(1))

    response = await client.call(
        75,
        0,
        kio.DescribeTopicPartitionsRequest(
            topics=(), cursor=kio.Cursor(topic_name="b", partition_index=3)
        ),
    )

    assert [each.name for each in response.topics] == ["c"]


async def test_only_what_has_changed_is_described_again(
    cluster: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[int] = []
    offline_replicas = MetadataCache.offline_replicas

    def noted(self: MetadataCache, partition: Any, listener: str) -> Any:
        described.append(partition.leader_epoch)
        return offline_replicas(self, partition, listener)

    monkeypatch.setattr(MetadataCache, "offline_replicas", noted)

    async def leaders() -> dict[str, tuple[int, int]]:
        response = await client.call(METADATA, 12, metadata(12, all_topics=True))
        return {
            topic.name: (topic.partitions[0].leader_id, topic.partitions[0].leader_epoch)
            for topic in response.topics
        }

    cluster.publish_topic("a", cluster.partition(1, (1, 2), leader_epoch=10))
    cluster.publish_topic("b", cluster.partition(1, (1, 2), leader_epoch=20))
    assert await leaders() == await leaders() == {"a": (1, 10), "b": (1, 20)}
    assert described == [10, 20]

    cluster.publish_topic("b", cluster.partition(2, (1, 2), leader_epoch=21))
    assert await leaders() == {"a": (1, 10), "b": (2, 21)}
    assert described == [10, 20, 21]

    cluster.publish_brokers(1, 2, fenced=[2])
    assert await leaders() == {"a": (1, 10), "b": (-1, 21)}
    assert described == [10, 20, 21, 10, 21]


async def test_each_version_and_listener_has_bytes_of_its_own_up_to_a_bound(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic("a", cluster.partition(1))
    image, encoded = cluster.cache.image, EncodedTopics()
    kinds = [TopicVariant(version, "CLIENTS", False) for version in range(ENCODED_KINDS_MAX + 1)]
    first, *others = (encoded.of(image, kind) for kind in kinds)

    assert [encoded.of(image, kind) for kind in kinds[1:]] == others
    assert all(
        encoded.of(image, kind) is known for kind, known in zip(kinds[1:], others, strict=True)
    )
    assert encoded.of(image, kinds[0]) is not first


async def test_bytes_of_deleted_topics_are_forgotten(cluster: Any, client: Any) -> None:
    encoded, kind = EncodedTopics(), TopicVariant(12, "CLIENTS", False)
    for name in "ab":
        cluster.publish_topic(name, cluster.partition(1))
    known = encoded.of(cluster.cache.image, kind)
    for topic_id, topic in cluster.cache.image.topics.by_id.items():
        known[topic_id] = (topic, b"")
    cluster.delete_topic("a")

    left = encoded.of(cluster.cache.image, kind)
    assert [topic.name for topic, _ in left.values()] == ["b"]
