"""Moves whose disks take their time: what is left behind never writes into what came after it, and
a former replica stays until its records are on another disk.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker.moves.future_copy import FutureCopy
from broker.moves.future_throttle import MoveThrottle
from broker.moves.move_states import MoveState
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.moves.moving import Moving
from tests.broker.moves.slow_disks import SlowDisk
from tests.broker.replicas import TOPIC_ID, until


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


def copier(disk: FileSystem, *, is_resumed: bool = False) -> FutureCopy:
    door = (disk, lambda: None)
    clock, threads = time.monotonic, system_environment().threads
    throttle = MoveThrottle(clock=clock, lock=threads.lock())
    return FutureCopy(
        door, door, throttle, threads=threads, monotonic_s=clock, is_resumed=is_resumed
    )


def test_what_was_deleted_since_it_was_copied_is_not_created_again(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        folder.mkdir()
    segments = [f"{offset:020}.log" for offset in (0, 100)]
    copy = copier(PosixFileSystem())
    for name in segments:
        (source / name).write_bytes(b"records")
        assert copy.copy(source / name, target / name, 0, 7) == 7
    (target / segments[0]).unlink()
    copy.sync(target)
    assert [path.name for path in target.iterdir()] == [segments[1]]


def test_the_file_that_says_whose_replica_it_is_is_on_the_disk_with_the_copy(
    tmp_path: Path,
) -> None:
    # It was written, unsynced, when the copy began; without it all of the copy is a stray.
    (tmp_path / names.PARTITION_METADATA_FILE).write_bytes(b"version: 0")
    disk = SlowDisk()
    copy = copier(disk)
    copy.sync(tmp_path)
    copy.sync(tmp_path)
    assert disk.synced == [names.PARTITION_METADATA_FILE]


def test_what_an_earlier_process_copied_is_brought_to_the_disk_too(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"records")
    (tmp_path / "b.log").write_bytes(b"records")
    (tmp_path / "b.index").write_bytes(b"index")
    disk = SlowDisk()
    copier(disk, is_resumed=True).sync(tmp_path)
    assert sorted(disk.synced) == ["a.log", "b.index", "b.log"]


async def test_a_hold_that_is_given_up_leaves_nobody_behind(moving: Moving, disk: SlowDisk) -> None:
    partition = await moving.lead()
    move = await moving.queued(1)
    hold = partition.hold
    holds = []

    def held() -> None:
        holds.append(True)
        if len(holds) == 1:
            disk.copies.open.clear()
            moving.produce_beside()
        hold()

    partition.hold = held  # type: ignore[method-assign]
    moving.produce_all_the_while()
    moving.accept()
    # Appends go on although the disk does not answer.
    await until(lambda: bool(holds) and not partition.is_held and disk.copies.inside == 1)
    sent = moving.sent
    await until(lambda: moving.sent > sent + 20)
    assert move.state is MoveState.ASSIGNMENT_ACCEPTED
    assert disk.copies.most_inside == 1
    disk.copies.open.set()
    await moving.over()
    await moving.finish_producing()
    assert disk.copies.most_inside == 1
    moving.check()


async def test_a_replica_that_is_moved_on_leaves_no_former_one(
    moving: Moving, disk: SlowDisk
) -> None:
    await moving.lead(accepts=True)
    disk.syncs.open.clear()
    await moving.moved(1)
    await moving.moved(2)
    await until(lambda: moving.names(1) != ["current"])
    # Nothing is on a disk yet but what there was at first.
    assert [moving.names(number) for number in range(3)] == [["stray"], ["stray"], ["current"]]
    disk.syncs.open.set()
    await until(
        lambda: (
            [moving.names(number) for number in range(3)] == [["delete"], ["delete"], ["current"]]
        )
    )
    moving.check()


async def test_a_deleted_topic_takes_its_former_replica_with_it(
    moving: Moving, disk: SlowDisk
) -> None:
    await moving.lead(accepts=True)
    disk.syncs.open.clear()
    await moving.moved(1)
    moving.apply(RemoveTopicRecord(topic_id=TOPIC_ID))
    await until(lambda: moving.names(1) == ["delete"])
    disk.syncs.open.set()
    await until(lambda: moving.names(0) == ["delete"])


async def test_a_redirection_that_is_refused_leaves_the_move_as_it_is(moving: Moving) -> None:
    await moving.lead()
    move = await moving.queued(1)
    moving.host.dirs[2].is_cordoned = True
    assert moving.alter(2) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert moving.move() is move
    assert move.state is MoveState.ASSIGNMENT_QUEUED


async def test_nothing_is_noted_for_a_cordoned_directory(moving: Moving) -> None:
    moving.host.dirs[1].is_cordoned = True
    assert moving.alter(1) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    moving.host.dirs[1].is_cordoned = False
    await moving.lead(batches=1)
    assert moving.log.log_dir is moving.host.dirs[0]
