from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from broker.controller_link.assignments import Assignment
from broker.placement.directory_reports import DirectoryReports
from broker.replica.replica_state import DataLoss, Offline
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.storage.log.loaded_log import create_log
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from jbodlab.vocabulary.ids import DirectoryId, TopicId, TopicIdPartition
from tests.broker.replicas import (
    ME,
    TOPIC_ID,
    Metadata,
    broker,
    change,
    directory_id,
    feature,
    partition_record,
    topic,
    until,
)
from tests.broker.stage import D2, Stage, tp
from tests.waiting import set_forward, turns

UNKNOWN = directory_id(777)


class Sender:
    """Keeps what was reported; nothing is accepted before the metadata says so."""

    def __init__(self) -> None:
        self.reports: list[tuple[int, DirectoryId]] = []
        self.waiting: dict[TopicIdPartition, Assignment] = {}

    def assign(
        self,
        topic_id: TopicId,
        partition: int,
        directory_id: DirectoryId,
        callback: Callable[[], None] | None = None,
    ) -> None:
        key = TopicIdPartition(topic_id, partition)
        self.reports.append((partition, directory_id))
        self.waiting[key] = Assignment(
            partition=key, directory_id=directory_id, on_accepted=callback
        )

    def pending(self, partition: TopicIdPartition) -> Assignment | None:
        return self.waiting.get(partition)


class Reported(Stage):
    """A broker with two directories, its replicas, and what it tells of them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.sender = Sender()
        self.new: set[int] = set()
        """Partitions that this broker has never heard of before."""
        self.reports = DirectoryReports(
            self.host.registry,
            self.host.log_dirs,
            self.sender,
            lambda key: key.partition in self.new,
        )
        self.host.log_dirs.add_failure_listener(self.reports)
        self.metadata = Metadata(self.host.manager.roles, self.reports)

    def publish(self, *records: Record) -> None:
        """The first publish."""
        self.describe((), *records, partitions=0)

    async def reviewed(self, partitions: int = 1) -> None:
        """Review when the logs are there."""
        for index in range(partitions):
            await self.host.online(tp(index))
        self.reports.review()

    def accept(self) -> None:
        """The controller takes over all that was reported."""
        waiting, self.sender.waiting = self.sender.waiting, {}
        self.apply(
            *(
                PartitionChangeRecord(
                    partition_id=key.partition,
                    topic_id=key.topic_id,
                    directories=self._with(key, each.directory_id),
                )
                for key, each in waiting.items()
            )
        )

    def _with(self, key: TopicIdPartition, directory: DirectoryId) -> tuple[DirectoryId, ...]:
        state = self.metadata.image.topics.partition(key.topic_id, key.partition)
        assert state is not None
        known = dict(zip(state.replicas, state.directories, strict=True))
        return tuple({**known, ME: directory}[replica] for replica in state.replicas)


@pytest.fixture
async def reported(tmp_path: Path) -> AsyncIterator[Reported]:
    async with Reported(tmp_path) as made:
        yield made


async def test_broker_waits_to_be_unfenced_until_all_its_directories_are_known(
    caplog: pytest.LogCaptureFixture, reported: Reported
) -> None:
    reported.publish(*(partition_record((1,), (UNASSIGNED,), index=index) for index in range(3)))
    waiting = asyncio.create_task(reported.reports.all_known())
    await until(lambda: len(reported.sender.waiting) == 3)
    await turns()
    set_forward(1)
    await until(lambda: "the broker stays fenced" in caplog.text)

    assert not waiting.done()
    (said,) = (each.message for each in caplog.records if "stays fenced" in each.message)
    assert "does not know the directories of 3 replicas" in said
    assert "orders-0" in said

    reported.accept()
    await waiting


async def test_broker_whose_directories_are_known_waits_for_nothing(reported: Reported) -> None:
    reported.publish(partition_record((1,), (reported.host.directory(1),)))
    await reported.host.online()
    await asyncio.wait_for(reported.reports.all_known(), 0.5)
    assert reported.sender.reports == []


async def test_log_that_failed_in_a_healthy_directory_is_reported_lost(reported: Reported) -> None:
    reported.publish(partition_record((1,), (reported.host.directory(0),)))
    partition = await reported.host.online()

    partition.log.fail()
    partition.log.on_failed(RuntimeError("of this log alone"))
    reported.reports.review()
    reported.reports.review()

    assert reported.sender.reports == [(0, LOST)]
    assert len(reported.host.log_dirs.online()) == 2


async def test_replica_of_a_failed_directory_needs_no_report_beside_the_heartbeat(
    reported: Reported,
) -> None:
    reported.publish(partition_record((1,), (reported.host.directory(0),)))
    await reported.host.online()
    reported.fail()
    reported.reports.review()
    assert reported.sender.reports == []


async def test_unreported_replica_of_a_failed_directory_is_reported_in_it(
    reported: Reported,
) -> None:
    reported.publish(partition_record((1,), (UNASSIGNED,)))
    await reported.reviewed()
    await until(lambda: bool(reported.sender.reports))
    failed = reported.host.log_dirs.by_id(reported.sender.reports[0][1])
    assert failed is not None

    # The controller still takes it for online; hearing of the directory it will know better.
    reported.host.log_dirs.fail(failed, "test")
    reported.reports.review()

    assert reported.sender.reports == [(0, failed.directory_id)]


async def test_accepted_directory_that_fails_before_the_metadata_shows_it_is_not_lost(
    reported: Reported,
) -> None:
    reported.publish(partition_record((1,), (UNASSIGNED,)))
    await reported.reviewed()
    directory = reported.sender.reports[0][1]
    failed = reported.host.log_dirs.by_id(directory)
    assert failed is not None

    reported.sender.waiting.clear()
    reported.host.log_dirs.fail(failed, "test")
    reported.reports.review()

    assert {told for _, told in reported.sender.reports} == {directory}


async def test_replica_that_may_lie_in_a_dead_directory_is_lost_if_the_controller_sees_it_online(
    reported: Reported,
) -> None:
    reported.fail()
    reported.publish(
        partition_record((1, 2), (MIGRATING, D2), index=0),
        partition_record((1, 2), (UNKNOWN, D2), index=1),
    )
    reported.reports.review()
    assert reported.sender.reports == [(0, LOST)]


async def test_empty_replacement_of_an_eligible_replica_is_lost(reported: Reported) -> None:
    lost = (UNKNOWN, D2)
    reported.publish(
        partition_record((1, 2), lost, index=0),
        partition_record((1, 2), lost, index=1),
        partition_record((1, 2), lost, index=2),
        change(isr=(2,), leader=2, elr=(1,), index=0),
        change(isr=(), leader=-1, last_known_elr=(1,), index=1),
        change(isr=(), leader=-1, elr=(2,), last_known_elr=(1,), index=2),
    )
    await reported.reviewed(3)

    told = dict(reported.sender.reports)
    assert (told[0], told[1]) == (LOST, LOST)
    # Another one is eligible, so that nobody counts on this one.
    assert told[2] in reported.host.directories

    # The controller has taken it for lost: now it follows, and is where it is.
    reported.apply(change(elr=(), index=0))
    reported.reports.review()
    assert dict(reported.sender.reports)[0] in reported.host.directories


async def test_empty_replacement_waits_for_another_replica_to_lead_where_nobody_is_eligible(
    reported: Reported,
) -> None:
    reported.publish(
        *(partition_record((1, 2), (UNKNOWN, D2), index=each) for each in range(2)),
        change(isr=(), leader=-1, last_known_elr=(1,), index=0),
        change(isr=(), leader=-1, elr=(1, 2), last_known_elr=(1,), index=1),
    )
    await reported.reviewed(2)
    assert dict(reported.sender.reports) == {0: LOST, 1: LOST}

    # The controller counts on nobody any more. An election by hand must not find the empty one.
    lost, both_lost = (LOST, D2), (LOST, LOST)
    reported.apply(
        change(last_known_elr=(), directories=lost, index=0),
        change(elr=(2,), last_known_elr=(), directories=lost, index=1),
    )
    reported.reports.review()
    assert dict(reported.sender.reports) == {0: LOST, 1: LOST}

    # One may follow the other, and the other has nobody to wait for.
    reported.apply(
        change(isr=(2,), leader=2, index=0), change(elr=(), directories=both_lost, index=1)
    )
    reported.reports.review()
    told = dict(reported.sender.reports)
    assert told[0] in reported.host.directories
    assert told[1] in reported.host.directories


async def test_empty_replacement_of_the_last_in_sync_replica_does_not_lead(
    reported: Reported,
) -> None:
    lost = (UNKNOWN, D2)
    reported.publish(
        partition_record((1, 2), lost, index=0),
        partition_record((1, 2), lost, index=1),
        partition_record((1,), (UNKNOWN,), index=2),
        change(isr=(1,), leader=-1, index=0),
        change(isr=(2,), leader=2, index=1),
        change(leader=-1, index=2),
    )
    await reported.reviewed(3)
    told = dict(reported.sender.reports)
    assert told[0] == LOST
    # One that is out of the ISR catches up first; one without others has nobody to ask.
    assert told[1] in reported.host.directories
    assert told[2] in reported.host.directories
    waiting = asyncio.create_task(reported.reports.all_known())
    await asyncio.sleep(0)
    reported.accept()
    await waiting

    # Somebody made the other replica leader: now this one may follow, and be known.
    reported.apply(change(isr=(2,), leader=2, index=0))
    assert reported.sender.reports[-1][0] == 0
    assert reported.sender.reports[-1][1] in reported.host.directories


async def test_empty_replacement_of_the_last_in_sync_replica_does_not_lead_after_a_restart_either(
    reported: Reported,
) -> None:
    host = reported.host
    log_dir, lost = host.dirs[0], (LOST, D2)
    for index in range(5):
        loaded = create_log(
            log_dir.fs, log_dir.path, tp(index), TOPIC_ID, LogConfig(), log_dir.files
        )
        host.manager.placement.add_loaded(loaded, log_dir, 0)
    reported.publish(
        partition_record((1, 2), lost, index=0),
        partition_record((1, 2), (host.directory(0), D2), index=1),
        partition_record((1, 2), lost, index=2),
        partition_record((1,), (LOST,), index=3),
        partition_record((1, 2), lost, index=4),
        change(isr=(1,), leader=-1, index=0),
        change(isr=(1,), leader=1, index=1),
        change(isr=(2,), leader=2, index=2),
        change(leader=-1, index=3),
        change(isr=(), leader=-1, index=4),
    )
    reported.reports.review()

    # Two are told to be lost already; one that never had a record was never lost.
    for index in (0, 4):
        found = await host.online(tp(index))
        assert found.data_loss is DataLoss.REPORTED
    assert dict(reported.sender.reports) == {2: host.directory(0), 3: host.directory(0)}


async def test_replica_that_its_broker_hears_of_first_at_its_start_may_lead(
    reported: Reported,
) -> None:
    here = (reported.host.directory(0), D2)
    reported.new = {0}
    reported.publish(
        # Made while this broker was dead and not fenced yet, and the others were.
        partition_record((1, 2), here, index=0),
        partition_record((1, 2), here, index=1),
        change(isr=(1,), leader=-1, index=0),
        change(isr=(1,), leader=-1, index=1),
    )
    await reported.reviewed(2)

    assert reported.sender.reports == [(1, LOST)]


async def test_new_replica_is_no_replacement(reported: Reported) -> None:
    reported.publish()
    reported.apply(
        partition_record((1, 2), (reported.host.directory(0), D2)),
        change(isr=(1,), leader=1),
    )
    await reported.reviewed()
    assert reported.sender.reports == []


async def test_replica_removed_by_hand_is_found_and_lost_alone(
    tmp_path: Path, reported: Reported
) -> None:
    directory = reported.host.directory(0)
    reported.publish(*(partition_record((1,), (directory,), index=index) for index in range(2)))
    lost = await reported.host.online()
    healthy = await reported.host.online(tp(1))
    # At once: what is removed file by file may get a new one meanwhile.
    (reported.host.dirs[0].path / "orders-0").rename(tmp_path / "removed")

    await reported.reports.find_lost_replicas()

    assert isinstance(lost.state, Offline)
    assert healthy.is_online
    assert reported.sender.reports == [(0, LOST)]
    assert len(reported.host.log_dirs.online()) == 2


async def test_announced_move_is_not_corrected_before_it_happened(reported: Reported) -> None:
    here, there = reported.host.directories
    reported.publish(partition_record((1,), (here,)))
    await reported.host.online()
    reported.reports.assign(TOPIC_ID, 0, there, lambda: None)
    # The metadata is ahead of the swap of the two logs.
    reported.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=(there,)))
    reported.reports.review()
    assert reported.sender.reports == [(0, there)]


async def test_without_directories_in_the_metadata_nothing_is_reported(reported: Reported) -> None:
    reported.apply(feature(16), broker(1), topic(), partition_record((1,), (MIGRATING,)))
    await reported.reviewed()
    await asyncio.wait_for(reported.reports.all_known(), 0.5)
    assert reported.sender.reports == []
