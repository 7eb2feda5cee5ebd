"""The end of replicas whose directory failed and came back while the broker runs."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from broker.replica.replica_state import DataLoss, Following, Leading
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, RemoveTopicRecord
from jbodlab.vocabulary.directory_id import LOST, UNASSIGNED
from jbodlab.vocabulary.ids import TopicId
from tests.broker.placement.reported import stories
from tests.broker.placement.returned import Returned
from tests.broker.replicas import (
    TOPIC,
    TOPIC_ID,
    batch,
    broker,
    change,
    config,
    directories_left,
    directory_id,
    partition_record,
    topic,
    until,
)
from tests.broker.stage import D2

ANOTHER_TOPIC = TopicId(UUID(int=0x5678))
STORIES = stories("returned_replicas")


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Returned]:
    async with Returned(tmp_path) as made:
        yield made


@pytest.mark.parametrize("title", STORIES)
async def test_story(story: Returned, title: str) -> None:
    await STORIES[title].check(story)


async def test_replica_comes_back_as_a_follower_with_its_log(story: Returned) -> None:
    here = story.host.directory(0)
    story.publish(partition_record((1, 2), (here, D2), isr=(1,)))
    await story.host.online()
    await story.host.produced(batch(5), acks=1)
    old = story.partition.log
    story.host.log_dirs.fail(story.first, "test")
    assert story.host.manager.roles.returning.unsettled(story.first)
    story.apply(change(leader=2, isr=(2,)), config("segment.bytes", "2000000"))
    assert (
        story.host.manager.roles.returning.unsettled(story.first)
        == "the directory id is still registered"
    )
    story.apply(directories_left(1, story.host.directory(1)))
    assert not story.host.manager.roles.returning.unsettled(story.first)

    life = await story.revive()

    replica = story.partition
    assert isinstance(replica.state, Following)
    assert replica.log is not old
    assert story.log.log_dir is life
    assert story.log.end_offset == 5
    assert story.log.config.segment_bytes == 2_000_000
    assert not replica.is_without_log
    assert [each.log for each in story.host.manager.logs_in(life)] == [replica.log]
    assert story.sender.reports == []

    story.apply(broker(1, *story.host.directories), change(leader=1, isr=(2, 1)))
    assert isinstance(replica.state, Leading)
    result = await story.host.produced(batch(1), acks=1)
    assert result.base_offset == 5


async def test_replica_of_another_topic_of_that_name_is_put_aside(story: Returned) -> None:
    here, there = story.host.directories
    story.publish(partition_record((1, 2), (here, D2)))
    await story.host.online()
    story.host.log_dirs.fail(story.first, "test")
    story.apply(
        directories_left(1, there),
        RemoveTopicRecord(topic_id=TOPIC_ID),
        topic(TOPIC, ANOTHER_TOPIC),
        partition_record((1, 2), (UNASSIGNED, D2), topic_id=ANOTHER_TOPIC),
    )
    created = await story.host.online()

    life = await story.revive(in_use=frozenset())

    assert created.log is not None
    assert created.log.log_dir is story.host.log_dirs.all[1]
    await until(lambda: len(list(life.path.glob("orders-0.*-stray"))) == 1)
    assert life.replica_count == 0
    assert not (life.path / "orders-0").exists()


async def test_last_replica_in_sync_that_is_made_anew_must_not_lead_but_its_own_log_may(
    tmp_path: Path, story: Returned
) -> None:
    here, there = story.host.directories
    story.publish(partition_record((1, 2), (here, D2)))
    await story.host.online()
    story.apply(change(isr=(1,)))
    await story.host.produced(batch(5), acks=1)
    story.host.log_dirs.fail(story.first, "test")
    story.apply(directories_left(1, there), change(leader=-1))
    kept = tmp_path / "kept"
    story.first.path.rename(kept)
    story.first.path.mkdir()
    (await story.revive(directory_id(15))).replica_count = 9
    story.apply(broker(1, there, directory_id(15)))
    empty = (await story.host.online()).log
    assert empty is not None
    await until(lambda: dict(story.sender.reports).get(0) == LOST)
    story.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=(LOST, D2)))

    # The old disk is put back.
    story.host.log_dirs.fail(story.first, "taken out")
    story.apply(directories_left(1, there))
    shutil.rmtree(story.first.path)
    kept.rename(story.first.path)
    life = await story.revive(here)

    replica = story.partition
    assert replica.is_online
    assert story.log.log_dir is life
    assert story.log.end_offset == 5
    assert replica.data_loss is DataLoss.NO
    assert dict(story.sender.reports)[0] == here
    await until(lambda: bool(list(empty.log_dir.path.glob("orders-0.*-delete"))))
    assert not (story.host.dirs[1].path / "orders-0").exists()


async def test_second_failure_takes_the_returned_replicas_offline_again(story: Returned) -> None:
    here, there = story.host.directories
    story.publish(partition_record((1,), (here,)))
    await story.host.online()
    await story.host.produced(batch(2))
    for _ in range(3):
        story.host.log_dirs.fail(story.first, "test")
        assert story.partition.is_without_log
        story.apply(directories_left(1, there), change(leader=-1))
        await story.revive()
        assert isinstance(story.partition.state, Following)
        story.apply(broker(1, here, there), change(leader=1))
        assert isinstance(story.partition.state, Leading)
    result = await story.host.produced(batch(1))
    assert result.base_offset == 2
    assert len(story.host.manager.placement._writers) <= 2
