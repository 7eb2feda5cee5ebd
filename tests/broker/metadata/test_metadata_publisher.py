from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from broker.controller_link.metadata_feed import MetadataListener
from broker.metadata.metadata_cache import MetadataCache
from broker.metadata.metadata_publisher import RETRY_S, MetadataPublisher
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.vocabulary.ids import BrokerId, TopicId
from tests.broker.replicas import (
    TOPIC,
    TP,
    Host,
    broker,
    directory_id,
    feature,
    partition_record,
    topic,
)
from tests.builders import named_uuid
from tests.waiting import AdjustableLoop, runner_on, set_forward, turns


def publisher(
    cache: MetadataCache, replicas: MetadataListener, after: Sequence[MetadataListener] = ()
) -> MetadataPublisher:
    made = MetadataPublisher(cache)
    made.publish_to([replicas], after)
    return made


def applied(publisher: MetadataPublisher, host: Host) -> MetadataImage:
    delta = MetadataDelta(EMPTY)
    records = (
        feature(),
        broker(1, *host.directories),
        topic(),
        partition_record((1,), (host.directory(0),)),
    )
    for offset, record in enumerate(records):
        delta.replay(record, offset)
    image = delta.apply(len(records) - 1, 1, 0)
    publisher.metadata_changed(delta, image)
    return image


runner = runner_on(AdjustableLoop)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    made = Host(tmp_path)
    yield made
    await made.stop()


async def test_replicas_follow_before_clients_are_told(host: Host) -> None:
    class Watched(MetadataCache):
        seen_first: bool | None = None

        def publish(self, image: MetadataImage) -> None:
            self.seen_first = host.manager.registry.partition(TP) is not None
            super().publish(image)

    cache = Watched(BrokerId(1), "PLAINTEXT")

    image = applied(publisher(cache, host.manager.roles), host)

    assert cache.seen_first is True
    assert cache.image is image
    assert cache.topic_id(TOPIC) is not None


async def test_clients_are_told_even_if_the_replicas_cannot_follow(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
            raise AssertionError("broken")

    cache = MetadataCache(BrokerId(1), "PLAINTEXT")

    with caplog.at_level(logging.ERROR):
        image = applied(publisher(cache, Broken()), host)

    assert cache.image is image
    assert "failed to apply metadata" in caplog.text


async def test_followers_come_last_and_one_that_stumbles_stops_no_other(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    cache = MetadataCache(BrokerId(1), "PLAINTEXT")
    seen: list[MetadataImage] = []

    class Follower:
        def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
            assert host.manager.registry.partition(TP) is not None
            assert cache.image is image
            seen.append(image)
            raise RuntimeError("after all")

    with caplog.at_level(logging.ERROR):
        followers = [Follower(), Follower()]
        image = applied(publisher(cache, host.manager.roles, followers), host)

    assert seen == [image, image]


async def test_a_listener_that_raised_is_told_again_of_all_that_it_lacks() -> None:
    class Stumbles:
        failures = 2

        def __init__(self) -> None:
            self.topics: list[str] = []

        def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
            if self.failures:
                self.failures -= 1
                raise RuntimeError("not foreseen")
            self.topics += [
                image.topics.by_id[each.topic_id].name for each in delta.topics.changed_partitions
            ]

    def create(delta: MetadataDelta, name: str, offset: int) -> None:
        topic_id = TopicId(named_uuid(name))
        delta.replay(topic(name, topic_id), offset)
        delta.replay(partition_record((1,), (directory_id(1),), topic_id=topic_id), offset)

    told, stumbles = Stumbles(), Stumbles()
    told.failures = 0
    made = MetadataPublisher(MetadataCache(BrokerId(1), "PLAINTEXT"))
    made.publish_to([stumbles, told], [])
    image = EMPTY
    for offset, name in enumerate(("a", "b")):
        delta = MetadataDelta(image)
        create(delta, name, offset)
        image = delta.apply(offset, 1, 0)
        made.metadata_changed(delta, image)

    assert (told.topics, stumbles.topics) == (["a", "b"], [])
    set_forward(RETRY_S)
    await turns()
    assert (made.failure_count, stumbles.topics) == (2, [])
    set_forward(2 * RETRY_S)
    await turns()
    assert sorted(stumbles.topics) == ["a", "b"]
    # It hears of later metadata at once, and once.
    delta = MetadataDelta(image)
    create(delta, "c", 2)
    made.metadata_changed(delta, delta.apply(2, 1, 0))
    assert stumbles.topics[2:] == ["c"]
    assert made.failure_count == 2
