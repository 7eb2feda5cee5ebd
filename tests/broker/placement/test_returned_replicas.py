"""What becomes of replicas whose directory failed and came back while the broker runs."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from uuid import UUID

import pytest

from broker.assemblies.replicas import ReplicaManager
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.life.loading import load_revived
from broker.placement.directory_reports import DirectoryReports
from broker.replica.registry.registry import ReplicaRegistry
from broker.replica.replica_state import Absent, DataLoss, Following, Leading, Offline
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, RemoveTopicRecord
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.directory_id import LOST, UNASSIGNED
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicId, TopicIdPartition, TopicPartition
from tests.broker.replicas import (
    TOPIC,
    TOPIC_ID,
    Metadata,
    batch,
    broker,
    change,
    config,
    directories_left,
    directory_id,
    feature,
    partition_record,
    topic,
    until,
)
from tests.broker.stage import D2, Stage
from tests.waiting import quiet

ANOTHER_TOPIC = TopicId(UUID(int=0x5678))


class Sender:
    """Remembers what was reported; nothing is ever accepted."""

    def __init__(self) -> None:
        self.told: dict[int, DirectoryId] = {}

    def assign(
        self, topic_id: TopicId, partition: int, directory: DirectoryId, callback: object = None
    ) -> None:
        self.told[partition] = directory

    def pending(self, partition: TopicIdPartition) -> None:
        return None


class Story(Stage):
    """One broker of two, with the directories 0 and 1, whose metadata a test writes."""

    def __init__(self, root: Path) -> None:
        self.sender = Sender()
        super().__init__(root, assigner=self._report)
        self.host.log_dirs.add_failure_listener(self.reports)
        for listener in (self.host.manager.roles, self.reports):
            self.host.log_dirs.add_return_listener(listener)
        self.metadata = Metadata(self.host.manager.roles, self.reports)

    def _report(self, registry: ReplicaRegistry, log_dirs: LogDirs) -> DirectoryReports:
        self.reports = DirectoryReports(registry, log_dirs, self.sender)  # type: ignore[arg-type]
        return self.reports

    @property
    def manager(self) -> ReplicaManager:
        return self.host.manager

    @property
    def first(self) -> LogDir:
        return self.host.log_dirs.all[0]

    async def start(self, *records: Record) -> None:
        self.apply(feature(), broker(1, *self.host.directories), broker(2, D2), topic(), *records)
        for partition in self.host.registry.partitions():
            await self.host.online(partition.topic_partition)

    def cordon(self, is_cordoned: bool) -> None:
        for log_dir in self.host.log_dirs.all:
            log_dir.is_cordoned = is_cordoned

    async def known(self, *directories: DirectoryId) -> None:
        """Let the controller know the directories, and the broker do what comes of it."""
        self.apply(broker(1, *directories))
        await quiet(self.host.log_dirs.all)

    def lose(self) -> DirectoryId:
        """Let directory 0 fail; returns its id."""
        failed = self.first.directory_id
        assert failed is not None
        self.host.log_dirs.fail(self.first, "test")
        return failed

    def add_offline_directory(self) -> LogDir:
        """Give the broker a third directory, which was dead when it started."""
        path = self.first.path.with_name("third")
        path.mkdir()
        third = LogDir(path, directory_id(12))
        self.host.log_dirs.all = (*self.host.log_dirs.all, third)
        third.go_offline("at start")
        return third

    def replace_first(self, *left: object) -> None:
        """Let directory 0 fail, the controller notice, and an empty disk take its place."""
        self.lose()
        self.apply(directories_left(1, self.host.directory(1)), *left)
        shutil.rmtree(self.first.path)
        self.first.path.mkdir()

    async def replaced(self) -> DirectoryId:
        """Replace the disk of a follower; returns the directory that is left."""
        here, there = self.host.directories
        await self.start(partition_record((2, 1), (D2, here)))
        self.replace_first(change(isr=(2,)))
        return there

    async def revive(
        self,
        new_id: DirectoryId | None = None,
        former: LogDir | None = None,
        in_use: Collection[object] | None = None,
    ) -> LogDir:
        former = former or self.first
        identity = former.disk.identity(former.path)
        life = former.next_life(new_id or former.directory_id, identity)
        if in_use is None:
            in_use = self.manager.roles.topic_partitions_in_use()
        logs = await load_revived(
            self.host.log_dirs,
            life,
            lambda _id, partition: (
                None if (TOPIC, partition) in in_use else TopicPartition(TOPIC, partition)
            ),
            lambda _: LogConfig(),
            is_ours=lambda _: True,
        )
        assert not self.manager.roles.unsettled(former)
        life.replica_count = len(logs)
        self.host.log_dirs.revive(former, life, logs)
        return life


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Story]:
    async with Story(tmp_path) as made:
        yield made


async def test_replica_comes_back_as_a_follower_with_its_log(story: Story) -> None:
    here = story.host.directory(0)
    await story.start(partition_record((1, 2), (here, D2), isr=(1,)))
    await story.host.produced(batch(5), acks=1)
    old = story.partition.log
    story.lose()
    assert story.manager.roles.unsettled(story.first)
    story.apply(change(leader=2, isr=(2,)), config("segment.bytes", "2000000"))
    assert story.manager.roles.unsettled(story.first) == "the directory id is still registered"
    story.apply(directories_left(1, story.host.directory(1)))
    assert not story.manager.roles.unsettled(story.first)

    life = await story.revive()

    replica = story.partition
    assert isinstance(replica.state, Following)
    assert replica.log is not old
    assert story.log.log_dir is life
    assert story.log.end_offset == 5
    assert story.log.config.segment_bytes == 2_000_000
    assert not replica.is_without_log
    assert [each.log for each in story.manager.logs_in(life)] == [replica.log]
    assert story.sender.told == {}

    story.apply(broker(1, *story.host.directories), change(leader=1, isr=(2, 1)))
    assert isinstance(replica.state, Leading)
    result = await story.host.produced(batch(1), acks=1)
    assert result.base_offset == 5


async def test_replica_is_unsettled_as_long_as_the_metadata_counts_on_it(story: Story) -> None:
    here = story.host.directory(0)
    await story.start(
        partition_record((1, 2), (here, D2), index=0),
        partition_record((1,), (here,), index=1),
        partition_record((2, 1), (D2, here), index=2),
    )
    story.lose()
    story.apply(directories_left(1, story.host.directory(1)))
    steps = [change(leader=2, isr=(2,)), change(leader=-1, index=1), change(isr=(2,), index=2)]
    for index, step in enumerate(steps):
        assert f"{TOPIC}-{index}" in story.manager.roles.unsettled(story.first)
        story.apply(step)
    # The last one in sync stays in the ISR, without leading.
    assert story.partition_at(1).registration.isr == (1,)
    assert not story.manager.roles.unsettled(story.first)


async def test_replica_of_another_topic_of_that_name_is_put_aside(story: Story) -> None:
    here, there = story.host.directories
    await story.start(partition_record((1, 2), (here, D2)))
    story.lose()
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


async def test_what_was_on_a_replaced_disk_is_made_anew_when_the_controller_knows_the_new_one(
    story: Story,
) -> None:
    there = await story.replaced()
    new_id = directory_id(15)

    life = await story.revive(new_id)
    story.apply(config("retention.ms", "1"))
    await quiet(story.host.log_dirs.all)
    assert story.partition.is_without_log

    story.apply(broker(1, there, new_id))
    replica = await story.host.online()
    assert isinstance(replica.state, Following)
    assert story.log.end_offset == 0
    assert story.log.log_dir in (life, story.host.log_dirs.all[1])
    await until(lambda: bool(story.sender.told))
    assert story.sender.told[0] == story.log.log_dir.directory_id


async def test_what_was_on_a_replaced_disk_is_made_anew_when_no_other_directory_is_offline(
    story: Story,
) -> None:
    here, there = story.host.directories
    await story.start(
        partition_record((2, 1), (D2, here), index=0),
        partition_record((2, 1), (D2, there), index=1),
    )
    third = story.add_offline_directory()
    story.replace_first(change(isr=(2,)))

    await story.revive(directory_id(15))
    await story.known(there, directory_id(15))
    assert isinstance(story.partition.state, Offline)
    assert story.partition_at(1).is_online

    await story.revive(former=third)
    story.apply(broker(1, there, directory_id(15), directory_id(12)))
    replica = await story.host.online()
    assert isinstance(replica.state, Following)


async def test_what_no_directory_took_is_made_anew_as_soon_as_one_takes_new_replicas(
    story: Story,
) -> None:
    there = await story.replaced()
    life = await story.revive(directory_id(15))
    story.cordon(True)
    await story.known(there, directory_id(15))
    assert story.partition.is_without_log

    life.is_cordoned = False
    story.manager.roles.directories_opened()
    await story.host.online()

    assert story.log.log_dir is life


async def test_log_that_comes_back_late_is_not_made_anew_even_if_it_fails_again(
    tmp_path: Path, story: Story
) -> None:
    here, there = story.host.directories
    await story.start(partition_record((1, 2), (UNASSIGNED, D2)))
    await story.host.produced(batch(5), acks=1)
    kept = tmp_path / "kept"
    shutil.copytree(story.first.path, kept)
    story.replace_first(change(leader=2, isr=(2,)))
    story.cordon(True)
    await story.revive(directory_id(15))
    story.apply(broker(1, there, directory_id(15)))

    # The old disk is put back.
    story.replace_first()
    shutil.rmtree(story.first.path)
    kept.rename(story.first.path)
    await story.revive(here)
    replica = story.partition
    assert story.log.end_offset == 5
    story.lose()
    story.cordon(False)
    story.apply(broker(1, there))
    story.manager.roles.directories_opened()

    assert isinstance(replica.state, Offline)


async def test_last_replica_in_sync_that_is_made_anew_must_not_lead_but_its_own_log_may(
    tmp_path: Path, story: Story
) -> None:
    here, there = story.host.directories
    await story.start(partition_record((1, 2), (here, D2)))
    story.apply(change(isr=(1,)))
    await story.host.produced(batch(5), acks=1)
    story.lose()
    story.apply(directories_left(1, there), change(leader=-1))
    kept = tmp_path / "kept"
    story.first.path.rename(kept)
    story.first.path.mkdir()
    (await story.revive(directory_id(15))).replica_count = 9
    story.apply(broker(1, there, directory_id(15)))
    empty = (await story.host.online()).log
    assert empty is not None
    await until(lambda: story.sender.told.get(0) == LOST)
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
    assert story.sender.told[0] == here
    await until(lambda: bool(list(empty.log_dir.path.glob("orders-0.*-delete"))))
    assert not (story.host.dirs[1].path / "orders-0").exists()


async def test_last_replica_in_sync_of_a_replaced_disk_is_not_forgotten_while_all_are_cordoned(
    story: Story,
) -> None:
    story.cordon(True)
    story.apply(
        *(feature(), broker(1, *story.host.directories), broker(2, D2), topic()),
        partition_record((1, 2), (directory_id(99), D2)),
        change(isr=(1,)),
    )

    assert isinstance(story.partition.state, Absent)
    assert story.partition.data_loss is DataLoss.SUSPECTED


async def test_replica_that_was_made_anew_must_not_lead_when_its_own_directory_comes_back_either(
    story: Story,
) -> None:
    here, there = story.host.directories
    await story.start(
        partition_record((1, 2), (here, D2), index=0),
        partition_record((1, 2), (here, D2), index=1),
    )
    lost = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, directories=(LOST, D2), isr=(BrokerId(1),)
    )
    story.lose()
    story.apply(
        directories_left(1, there),
        change(isr=(1,), leader=-1, index=0),
        change(isr=(1,), leader=-1, index=1),
        lost,
    )

    await story.revive()

    # It is empty, and an earlier process said that what it should hold is lost.
    assert story.partition_at(0).data_loss is DataLoss.REPORTED
    assert story.partition_at(1).data_loss is DataLoss.NO
    assert story.sender.told.get(0) in (None, LOST)


async def test_second_failure_takes_the_returned_replicas_offline_again(story: Story) -> None:
    here, there = story.host.directories
    await story.start(partition_record((1,), (here,)))
    await story.host.produced(batch(2))
    for _ in range(3):
        story.lose()
        assert story.partition.is_without_log
        story.apply(directories_left(1, there), change(leader=-1))
        await story.revive()
        assert isinstance(story.partition.state, Following)
        story.apply(broker(1, here, there), change(leader=1))
        assert isinstance(story.partition.state, Leading)
    result = await story.host.produced(batch(1))
    assert result.base_offset == 2
    assert len(story.manager.placement._writers) <= 2


async def test_replica_found_in_another_directory_than_assigned_is_reported(story: Story) -> None:
    here, there = story.host.directories
    await story.start(partition_record((2, 1), (D2, here)))
    story.lose()
    story.apply(
        directories_left(1, there),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=(D2, LOST), isr=(2,)),
    )
    await story.revive()
    assert story.sender.told == {0: here}


async def test_replica_removed_by_hand_from_a_healthy_directory_is_not_made_anew(
    story: Story,
) -> None:
    here, there = story.host.directories
    await story.start(
        partition_record((2, 1), (D2, here), index=0),
        partition_record((2, 1), (D2, there), index=1),
    )
    shutil.rmtree(story.host.dirs[1].path / "orders-1")
    await story.reports.find_lost_replicas()
    assert isinstance(story.partition_at(1).state, Offline)
    story.lose()
    story.apply(directories_left(1, there), change(isr=(2,)), change(isr=(2,), index=1))

    await story.revive()
    await story.known(here, there)

    assert story.partition_at(0).is_online
    assert isinstance(story.partition_at(1).state, Offline)


async def test_replica_removed_by_hand_is_not_made_anew_with_those_that_waited(
    tmp_path: Path, story: Story
) -> None:
    here, there = story.host.directories
    await story.start(
        partition_record((2, 1), (D2, here), index=0),
        partition_record((2, 1), (D2, here), index=1),
    )
    third = story.add_offline_directory()
    kept = tmp_path / "kept"
    shutil.copytree(story.first.path / "orders-1", kept)
    story.replace_first(change(isr=(2,)), change(isr=(2,), index=1))
    kept.rename(story.first.path / "orders-1")
    await story.revive(directory_id(15))
    story.apply(broker(1, there, directory_id(15)))
    assert story.partition_at(1).is_online
    shutil.rmtree(story.first.path / "orders-1")
    await story.reports.find_lost_replicas()

    await story.revive(former=third)
    await story.known(there, directory_id(15), directory_id(12))

    assert story.partition_at(0).is_online
    assert isinstance(story.partition_at(1).state, Offline)
