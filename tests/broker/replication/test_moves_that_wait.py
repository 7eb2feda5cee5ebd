"""A move that cannot go on waits; it does not ask the disks again and again meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.logdirs.disk_space import DiskSpace
from broker.replication.replica_move import MoveState
from jbodlab.log.replica_copy import CopyPoint
from jbodlab.log.replica_log import ReplicaLog
from tests.broker.replication.test_replica_mover import Moving, run

ROUNDS_MAX = 60
"""A round every twentieth of a second would make twenty; one after the other makes hundreds."""


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every look at a log that is copied."""
    found: list[int] = []
    copy_point = ReplicaLog.copy_point

    def counted(log: ReplicaLog) -> CopyPoint:
        found.append(1)
        return copy_point(log)

    monkeypatch.setattr(ReplicaLog, "copy_point", counted)
    return found


def test_for_room_as_long_as_the_next_piece_does_not_fit(tmp_path: Path, rounds: list[int]) -> None:
    async def test(moving: Moving) -> None:
        partition = await moving.begin()
        moving.host.assignments.accepts = True
        disk = moving.host.dirs[1].space.disk = DiskSpace(1_000_000)
        disk.looked(1_000_000_000, 1_000_000_000)
        # A segment has 4,000 bytes.
        disk.usable_bytes = disk.reserved_bytes + 2_000
        moving.alter(1)
        await asyncio.sleep(1)
        assert moving.move().state is MoveState.COPYING
        assert len(rounds) < ROUNDS_MAX
        disk.usable_bytes = disk.reserved_bytes + 100_000
        moving.mover.log_dir_condition_changed(moving.host.dirs[1])
        await moving.over()
        moving.check(partition)

    run(tmp_path, test)


def test_for_a_file_that_somebody_took_away(tmp_path: Path, rounds: list[int]) -> None:
    async def test(moving: Moving) -> None:
        partition = await moving.begin()
        moving.host.assignments.accepts = True
        assert partition.log is not None
        file = partition.log.log.directory / f"{0:020}.log"
        away = file.with_name("away")
        file.rename(away)
        moving.alter(1)
        await asyncio.sleep(1)
        assert moving.move().state is MoveState.COPYING
        assert len(rounds) < ROUNDS_MAX
        away.rename(file)
        await moving.over()
        moving.check(partition)

    run(tmp_path, test)
