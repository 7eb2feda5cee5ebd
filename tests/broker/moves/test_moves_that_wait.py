"""A move that cannot go on waits; it does not ask the disks again and again meanwhile."""

from __future__ import annotations

import asyncio
import time

import pytest

from broker.disk.condition import disk_space
from broker.disk.condition.disk_space import DiskSpace
from broker.moves.copy_rounds import CopyRounds
from broker.moves.move import Move
from broker.moves.move_states import MoveState
from broker.replica.log import directory_writer
from broker.replica.log.partition_log import PartitionLog
from jbodlab.record_batch.record_batch import build_batch, iterate_headers, read_header
from jbodlab.storage.log.replica_copy import CopyPoint
from tests.broker.disks import CrampedDisk
from tests.broker.logs import read_direct
from tests.broker.moves.moving import PER_BATCH, Moving
from tests.broker.replicas import TP, until
from tests.waiting import quiet, set_forward

ROUNDS_MAX = 60
"""Of a second. A round every twentieth of it would make twenty; one after the other hundreds."""


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_writer, "FULL_RETRY_S", 0.02)


@pytest.fixture
def disk() -> CrampedDisk:
    return CrampedDisk()


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every look at a log that is copied."""
    found: list[int] = []
    look = CopyRounds.look

    def counted(copy_rounds: CopyRounds, move: Move) -> CopyPoint:
        found.append(1)
        return look(copy_rounds, move)

    monkeypatch.setattr(CopyRounds, "look", counted)
    return found


async def second_by_second(moving: Moving) -> float:
    """Let a second pass in which nothing changes, timer by timer, by the clock of the loop.

    Returns:
        How many seconds that were: on a busy machine more than one.
    """
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    for _ in range(100):
        set_forward(0.01)
        await quiet(moving.host.dirs, rounds=1)
    return loop.time() - begun_s


async def test_for_room_as_long_as_the_next_piece_does_not_fit(
    rounds: list[int], moving: Moving
) -> None:
    await moving.lead(accepts=True)
    disk = moving.host.dirs[1].space.disk = DiskSpace(1_000_000)
    disk.looked(1_000_000_000, 1_000_000_000)
    # A segment has 4,000 bytes.
    disk.usable_bytes = disk.reserved_bytes + 2_000
    moving.alter(1)
    passed_s = await second_by_second(moving)
    assert moving.move().state is MoveState.COPYING
    assert len(rounds) < ROUNDS_MAX * passed_s
    disk.usable_bytes = disk.reserved_bytes + 100_000
    moving.mover.log_dir_condition_changed(moving.host.dirs[1])
    await moving.over()
    moving.check()


async def test_for_a_file_that_somebody_took_away(rounds: list[int], moving: Moving) -> None:
    await moving.lead(accepts=True)
    file = moving.log.files.directory / f"{0:020}.log"
    away = file.with_name("away")
    file.rename(away)
    moving.alter(1)
    passed_s = await second_by_second(moving)
    assert moving.move().state is MoveState.COPYING
    assert len(rounds) < ROUNDS_MAX * passed_s
    away.rename(file)
    await moving.over()
    moving.check()


async def test_a_log_that_waits_for_room_moves_with_all_that_it_has(
    moving: Moving, disk: CrampedDisk
) -> None:
    await moving.lead(accepts=True)
    disk.below, disk.left = moving.host.dirs[0].path, 0
    moving.produce_beside()
    log = moving.log
    await until(lambda: log.is_blocked)
    moving.alter(1)
    await until(lambda: moving.move().future is not None)
    await quiet(moving.host.dirs)
    assert log.log_dir is moving.host.dirs[0]

    disk.left = None
    await moving.over()
    assert log.log_dir is moving.host.dirs[1]
    assert log.log_dir.is_online
    await moving.produce()
    moving.check()


@pytest.mark.parametrize("position", range(0, 30, 3))
async def test_a_target_that_takes_no_more_puts_a_move_off_wherever_it_is(
    position: int, monkeypatch: pytest.MonkeyPatch, moving: Moving, disk: CrampedDisk
) -> None:
    monkeypatch.setattr(disk_space, "DENIAL_S", 0.0)

    await moving.lead(accepts=True)
    source, target = moving.host.dirs[:2]
    disk.below, disk.left = target.path, position
    moving.alter(1)
    await until(lambda: bool(disk.refused) or moving.mover.move_of(TP) is None)
    if moving.log is not None and moving.log.log_dir is source:
        await moving.produce()

    disk.left = None

    def looked() -> bool:
        target.space.written(time.monotonic())
        return moving.mover.move_of(TP) is None and target.space.disk.denial is None

    await until(looked)
    assert moving.log.log_dir is target
    assert source.is_online
    assert target.is_online
    await moving.produce()
    moving.check()


async def other_end(log: PartitionLog) -> list[bytes]:
    """Cut the log, and append as many other bytes; returns what it is to consist of."""
    kept = read_direct(log, 0)
    ends = [position for position, _ in iterate_headers(kept)]
    assert await log.truncate(3 * PER_BATCH)
    new = []
    for _ in ends[3:]:
        data = build_batch(
            [(None, b"y" * 100)] * PER_BATCH, base_offset=log.end_offset, timestamp_ms=1
        )
        log.append_as_follower(data, [read_header(data)])
        new.append(data)
    return [kept[: ends[3]], *new]


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_cut_that_waits_for_room_on_either_side_is_made_before_more_is_copied(
    side: str, monkeypatch: pytest.MonkeyPatch, moving: Moving, disk: CrampedDisk
) -> None:
    monkeypatch.setattr(disk_space, "DENIAL_S", 0.0)

    partition = await moving.lead(batches=6)
    log, source, target = partition.log, *moving.host.dirs[:2]
    assert log is not None
    if side == "target":
        moving.alter(1)
        await moving.in_state(MoveState.ASSIGNMENT_QUEUED)
    disk.below, disk.left = (source if side == "source" else target).path, 0
    wanted = await other_end(log)
    partition.truncated()
    if side == "source":
        await until(lambda: log.is_blocked)
        moving.alter(1)
    await until(lambda: bool(disk.refused) and moving.move().future is not None)
    for _ in range(10):
        set_forward(0.1)
        await quiet(moving.host.dirs)

    disk.left = None
    moving.host.assignments.accepts = True
    moving.accept()

    def looked() -> bool:
        target.space.written(time.monotonic())
        return moving.mover.move_of(TP) is None

    await until(looked)
    assert log.log_dir is target
    assert read_direct(log, 0) == b"".join(wanted)
