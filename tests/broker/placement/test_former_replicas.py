"""What becomes of a replica whose copy comes back from a failed disk with less than it was given.

KIP-113: the copy of a move takes its replica's place before it is on its disk.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.disk.loading import load_revived
from broker.disk.log_dir import LogDir
from broker.replica.partition import Partition
from broker.replica.replica_state import Leading
from jbodlab.error_code import ErrorCode
from jbodlab.log.log_config import LogConfig
from jbodlab.records.topic_records import PartitionChangeRecord
from tests.broker.moves.test_copies_on_slow_disks import SlowDisk
from tests.broker.moves.test_running_moves import Moving, run
from tests.broker.replicas import TOPIC_ID, broker, change, directories_left, until


async def moved(moving: Moving, disk: SlowDisk) -> Partition:
    """Move a replica to directory 1, which fails before the copy is on its disk."""
    host = moving.host
    host.assignments.accepts = True
    host.log_dirs.add_return_listener(host.manager.roles)
    partition = await moving.begin()
    disk.syncs.open.clear()
    assert moving.alter(1) is ErrorCode.NONE
    await moving.over()
    await until(lambda: moving.names(0) == ["stray"])
    host.log_dirs.fail(host.dirs[1], "test")
    disk.syncs.open.set()
    moving.metadata.apply(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=(host.directory(1),)),
        directories_left(1, host.directory(0), host.directory(2)),
        change(leader=-1),
    )
    return partition


async def revived(moving: Moving, *, also_fails: str = "") -> LogDir:
    """Revive directory 1 as `LogDirRevival` does; the other may fail before it looks, or after."""
    host = moving.host
    former = host.dirs[1]
    life = former.next_life(former.directory_id, former.disk.identity(former.path))
    logs = await load_revived(
        host.log_dirs,
        life,
        lambda _name, _id: False,
        lambda _: LogConfig(segment_bytes=4000),
        is_ours=lambda _: True,
    )
    if also_fails == "before":
        host.log_dirs.fail(host.dirs[0], "test")
    await host.manager.roles.load_formers(logs)
    if also_fails == "after":
        host.log_dirs.fail(host.dirs[0], "test")
    life.replica_count = len(logs)
    host.log_dirs.revive(former, life, logs)
    moving.metadata.apply(broker(1, *host.directories), change(leader=1))
    return life


def lose_the_end(moving: Moving) -> None:
    """Let half of the segments of the copy be empty."""
    folder = moving.host.dirs[1].path / "orders-0"
    segments = sorted(folder.glob("*.log"))
    for segment in segments[len(segments) // 2 :]:
        os.truncate(segment, 0)


def test_copy_that_lost_records_gives_way_to_what_it_was_moved_from(tmp_path: Path) -> None:
    disk = SlowDisk()

    async def test(moving: Moving) -> None:
        partition = await moved(moving, disk)
        lose_the_end(moving)
        assert moving.asked == [1]
        counts = [each.replica_count for each in moving.host.log_dirs.all]

        life = await revived(moving)

        assert isinstance(partition.state, Leading)
        assert partition.log is not None
        assert partition.log.log_dir is moving.host.dirs[0]
        moving.check(partition)
        # The controller is told where it is, and both directories have one folder of it.
        assert moving.asked[0] == 0
        await until(lambda: (moving.names(0), moving.names(1)) == (["current"], ["stray"]))
        assert moving.host.dirs[0].replica_count == counts[0] + 1
        assert life.replica_count == 0
        await moving.produce()
        # It may be moved again, and this time the former one goes.
        assert moving.alter(2) is ErrorCode.NONE
        await moving.over()
        await until(lambda: (moving.names(0), moving.names(2)) == (["delete"], ["current"]))
        moving.check(partition)

    run(tmp_path, test, disk)


def test_copy_that_lost_nothing_is_used(tmp_path: Path) -> None:
    disk = SlowDisk()

    async def test(moving: Moving) -> None:
        partition = await moved(moving, disk)

        life = await revived(moving)

        assert partition.log is not None
        assert partition.log.log_dir is life
        moving.check(partition)
        assert (moving.names(0), moving.names(1)) == (["stray"], ["current"])

    run(tmp_path, test, disk)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_former_replica_whose_directory_fails_too_is_not_used(tmp_path: Path, moment: str) -> None:
    disk = SlowDisk()

    async def test(moving: Moving) -> None:
        partition = await moved(moving, disk)
        lose_the_end(moving)

        life = await revived(moving, also_fails=moment)

        # Less than it had, but more than none.
        assert partition.log is not None
        assert partition.log.log_dir is life
        assert 0 < partition.log.end_offset < 180

    run(tmp_path, test, disk)
