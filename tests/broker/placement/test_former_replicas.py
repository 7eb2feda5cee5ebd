"""The end of a replica whose copy comes back from a failed disk with less than it was given.

KIP-113: the copy of a move takes its replica's place before it is on its disk.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from broker.disk.directory.log_dir import LogDir
from broker.disk.life.loading import LoadedReplica, load_revived
from broker.placement.found_replicas import settle
from broker.replica.partition.partition import Partition
from broker.replica.replica_state import DataLoss, Leading
from jbodlab.config.topic_keys import SEGMENT_BYTES
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.storage.directory import names
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_loader import load_log
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.moves.moving import Moving
from tests.broker.moves.slow_disks import SlowDisk
from tests.broker.replicas import (
    TOPIC_ID,
    TP,
    broker,
    change,
    config,
    directories_left,
    feature,
    partition_record,
    topic,
    until,
)

CONFIG = LogConfig(segment_bytes=4000)


@pytest.fixture(params=["whole", "cut"], autouse=True)
def name_of_the_former_replica(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder's name has the longest suffix of all, so it may be cut where no other is."""
    if request.param == "cut":
        left = names.moved_dir(TP, "0" * 32)
        monkeypatch.setattr(names, "DIR_NAME_CHARS_MAX", len(left) - 1)


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


async def moved(moving: Moving, disk: SlowDisk) -> Partition:
    """Move a replica to directory 1, which fails before the copy is on its disk."""
    host = moving.host
    host.assignments.accepts = True
    host.log_dirs.add_return_listener(host.manager.roles.returning)
    partition = await moving.lead()
    disk.syncs.open.clear()
    await moving.moved(1)
    await until(lambda: moving.names(0) == ["stray"])
    host.log_dirs.fail(host.dirs[1], "test")
    disk.syncs.open.set()
    moving.metadata.apply(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=(host.directory(1),)),
        directories_left(1, host.directory(0), host.directory(2)),
        change(leader=-1),
    )
    return partition


async def revived(moving: Moving, number: int = 1, *, also_fails: str = "") -> LogDir:
    """Revive a directory as `LogDirRevival` does; the first may fail before it looks, or after."""
    host = moving.host
    former = host.log_dirs.all[number]
    life = former.next_life(former.directory_id, former.disk.identity(former.path))
    logs = await load_revived(
        host.log_dirs,
        life,
        lambda topic_id, partition: TopicPartition(TP.topic, partition) if topic_id else None,
        lambda _: CONFIG,
        is_ours=lambda _: True,
    )
    if also_fails == "before":
        host.log_dirs.fail(host.dirs[0], "test")
    if also_fails == "meanwhile":
        run_there = host.dirs[0].run

        def run_and_fail(function: Callable[[], Any]) -> asyncio.Future[Any]:
            # The thread has answered, and whoever waits has not gone on yet.
            answer = run_there(function)
            answer.add_done_callback(lambda _: host.log_dirs.fail(host.dirs[0], "test"))
            return answer

        host.dirs[0].run = run_and_fail  # type: ignore[method-assign]
    await host.manager.roles.returning.load_formers(life, logs)
    if also_fails == "after":
        host.log_dirs.fail(host.dirs[0], "test")
    life.replica_count = len(logs)
    host.log_dirs.revive(former, life, logs)
    if not host.log_dirs.any_offline:
        moving.metadata.apply(broker(1, *host.directories), change(leader=1))
    return life


def lose_the_end(moving: Moving) -> None:
    """Let half of the segments of the copy be empty."""
    folder = moving.host.dirs[1].path / "orders-0"
    segments = sorted(folder.glob("*.log"))
    for segment in segments[len(segments) // 2 :]:
        os.truncate(segment, 0)


async def test_copy_that_lost_records_gives_way_to_what_it_was_moved_from(
    moving: Moving, disk: SlowDisk
) -> None:
    partition = await moved(moving, disk)
    lose_the_end(moving)
    assert moving.asked == [1]
    counts = [each.replica_count for each in moving.host.log_dirs.all]

    life = await revived(moving)

    assert isinstance(partition.state, Leading)
    assert moving.log.log_dir is moving.host.dirs[0]
    moving.check()
    # The controller is told where it is, and both directories have one folder of it.
    assert moving.asked[0] == 0
    await until(lambda: (moving.names(0), moving.names(1)) == (["current"], ["stray"]))
    assert moving.host.dirs[0].replica_count == counts[0] + 1
    assert life.replica_count == 0
    await moving.produce()
    # It may be moved again, and this time the former one goes.
    await moving.moved(2)
    await until(lambda: (moving.names(0), moving.names(2)) == (["delete"], ["current"]))
    moving.check()


@pytest.mark.parametrize("lost", ["folder", "topic id"])
async def test_copy_that_is_gone_or_cannot_be_told_gives_way_to_what_it_was_moved_from(
    lost: str, moving: Moving, disk: SlowDisk
) -> None:
    partition = await moved(moving, disk)
    folder = moving.host.dirs[1].path / "orders-0"
    if lost == "folder":
        shutil.rmtree(folder)
    else:
        (folder / "partition.metadata").write_text("version: 0\n")

    await revived(moving)

    assert isinstance(partition.state, Leading)
    assert moving.log.log_dir is moving.host.dirs[0]
    moving.check()
    await until(lambda: moving.names(0) == ["current"])
    assert moving.names(1) == ([] if lost == "folder" else ["stray"])
    await moving.produce()
    moving.check()


async def test_copy_that_lost_nothing_is_used(moving: Moving, disk: SlowDisk) -> None:
    await moved(moving, disk)

    life = await revived(moving)

    assert moving.log.log_dir is life
    moving.check()
    assert (moving.names(0), moving.names(1)) == (["stray"], ["current"])


@pytest.mark.parametrize("moment", ["before", "meanwhile", "after"])
async def test_former_replica_whose_directory_fails_too_is_not_used(
    moment: str, moving: Moving, disk: SlowDisk
) -> None:
    await moved(moving, disk)
    lose_the_end(moving)

    life = await revived(moving, also_fails=moment)

    # Less than it had, but more than none.
    assert moving.log.log_dir is life
    assert 0 < moving.log.end_offset < 180


@pytest.mark.parametrize("has_lost", [True, False])
async def test_former_replica_that_comes_back_first_waits_for_the_copy(
    has_lost: bool, moving: Moving, disk: SlowDisk
) -> None:
    partition = await moved(moving, disk)
    if has_lost:
        lose_the_end(moving)
    moving.host.log_dirs.fail(moving.host.dirs[0], "test")
    moving.metadata.apply(directories_left(1, moving.host.directory(2)))

    first = await revived(moving, 0)
    assert partition.is_without_log
    assert first.replica_count == 0
    second = await revived(moving)

    assert moving.log.log_dir is (first if has_lost else second)
    moving.check()


async def restarted(before: Moving, disk: SlowDisk, *, is_first_offline: bool) -> Moving:
    """Start anew beside the dead directory 1, which the metadata name, and perhaps 0."""
    root = before.host.dirs[0].path.parent
    await before.host.stop()
    after = Moving(root, disk)
    after.sent = before.sent
    host = after.host
    host.log_dirs.add_return_listener(host.manager.roles.returning)
    host.log_dirs.fail(host.dirs[1], "test")
    (folder,) = host.dirs[0].path.glob("*-stray")
    if is_first_offline:
        host.log_dirs.fail(host.dirs[0], "test")
    else:
        log = load_log(
            host.dirs[0].fs,
            folder,
            TP,
            CONFIG,
            host.dirs[0].files,
            clean=False,
            recovery_point=0,
            log_start_offset=None,
        )
        left = LoadedReplica(log=log, log_dir=host.dirs[0], high_watermark=0, is_future=False)
        image = before.metadata.image
        host.manager.take_found(await settle([left], image, host.broker_id, any_offline=True))
    after.metadata.apply(
        feature(),
        topic(),
        config(SEGMENT_BYTES, "4000"),
        broker(1, host.directory(2)),
        partition_record([1], [host.directory(1)]),
        change(leader=-1),
    )
    partition = host.manager.registry.partition(TP)
    assert partition is not None
    assert partition.is_without_log
    return after


@pytest.mark.parametrize("is_first_offline", [True, False])
@pytest.mark.parametrize("has_lost", [True, False])
async def test_former_replica_waits_for_its_copy_after_a_restart_too(
    is_first_offline: bool, has_lost: bool, moving: Moving, disk: SlowDisk
) -> None:
    await moved(moving, disk)
    if has_lost:
        lose_the_end(moving)
    after = await restarted(moving, disk, is_first_offline=is_first_offline)
    if is_first_offline:
        await revived(after, 0)

    await revived(after)

    assert after.log.log_dir is after.host.log_dirs.all[not has_lost]
    after.check()
    left = (["current"], ["stray"]) if has_lost else (["stray"], ["current"])
    await until(lambda: (after.names(0), after.names(1)) == left)
    await after.host.stop()


async def test_former_replica_is_used_where_no_copy_can_come_back(
    moving: Moving, disk: SlowDisk
) -> None:
    await moved(moving, disk)
    after = await restarted(moving, disk, is_first_offline=True)
    shutil.rmtree(after.host.dirs[1].path)
    after.host.dirs[1].path.mkdir()
    # The controller does not know the new disk yet, so that nothing is made anew.
    await revived(after, 1)
    await revived(after, 0)

    partition = after.host.manager.registry.partition(TP)
    assert partition is not None
    after.check()
    # If there are others, and they are not in sync, it must not lead: what came since is gone.
    assert partition.data_loss is DataLoss.SUSPECTED
    await until(lambda: (after.names(0), after.names(1)) == (["current"], []))
    await after.host.stop()
