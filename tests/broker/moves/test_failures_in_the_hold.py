"""One of the two disks fails or hangs while appends are held for the swap: what waits is answered,
and there is one live copy in the directory that the controller is told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from broker.moves import directory_swap
from broker.moves.move_states import MoveState
from broker.replica.partition.partition import Partition
from broker.replica.replica_state import Offline
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.moves.moving import Moving
from tests.broker.moves.slow_disks import Gate, SlowDisk
from tests.broker.replicas import ME, TOPIC_ID, batch, until
from tests.waiting import quiet, set_forward

HOLD_MAX_S = 5.0
"""No loaded machine takes so long from the begin of a hold to what a test does in it."""


@pytest.fixture(autouse=True)
def _long_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_swap, "HOLD_MAX_S", HOLD_MAX_S)


class DiskWithSlowRenames(SlowDisk):
    """A disk that can be made to take its time for renames too."""

    def __init__(self) -> None:
        super().__init__()
        self.renames = Gate()

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        # Once it has begun the broker counts on it, as nobody can take it back.
        super().rename(source, target, sync=sync)
        with self.renames:
            pass


@pytest.fixture
def disk() -> DiskWithSlowRenames:
    return DiskWithSlowRenames()


async def in_hold(moving: Moving, partition: Partition, disk: SlowDisk, gate: Gate) -> None:
    """Come to the moment when appends are held, and the disk is busy with what is left to do."""
    await moving.queued(1)
    hold = partition.hold

    def held() -> None:
        gate.open.clear()
        # However fast the disk was until now, this is left to copy.
        moving.produce_beside()
        hold()

    partition.hold = held  # type: ignore[method-assign]
    moving.produce_all_the_while()
    moving.accept()
    await until(lambda: partition.is_held and gate.inside == 1)


def gate_of(disk: DiskWithSlowRenames, stage: str) -> Gate:
    return disk.copies if stage == "copying" else disk.renames


async def refused(moving: Moving) -> None:
    """Wait until the producer that goes on all the while is told that it cannot."""
    with pytest.raises(AssertionError, match="KAFKA_STORAGE_ERROR"):
        await moving.produce_until_refused()


@pytest.mark.parametrize("stage", ["copying", "renaming"])
async def test_the_source_fails(stage: str, moving: Moving, disk: DiskWithSlowRenames) -> None:
    partition = await moving.lead()
    gate = gate_of(disk, stage)
    await in_hold(moving, partition, disk, gate)
    assert moving.asked == [1]
    moving.fail()
    assert not partition.is_held
    await refused(moving)
    assert isinstance(partition.state, Offline)
    assert moving.asked == [0]
    assert moving.move().state is MoveState.SUSPENDED
    gate.open.set()
    await settled(moving, lambda: moving.names(1) == ["future"])
    assert moving.names(0) == ["current"]
    assert isinstance(partition.state, Offline)


@pytest.mark.parametrize("stage", ["copying", "renaming"])
async def test_the_target_fails(stage: str, moving: Moving, disk: DiskWithSlowRenames) -> None:
    partition = await moving.lead()
    gate = gate_of(disk, stage)
    await in_hold(moving, partition, disk, gate)
    sent = moving.sent
    moving.fail(1)
    assert moving.asked == [1, 0]
    assert moving.mover.move_of(partition.topic_partition) is None
    # Nobody waits for a disk that is dead.
    await until(lambda: not partition.is_held and moving.sent > sent + 20)
    gate.open.set()
    await moving.finish_producing()
    assert moving.log.log_dir is moving.host.dirs[0]
    assert partition.is_online
    moving.check()
    result = await moving.host.produced(batch(1))
    assert result.error_code is ErrorCode.NONE


@pytest.mark.parametrize("stage", ["copying", "renaming"])
async def test_it_is_cancelled(stage: str, moving: Moving, disk: DiskWithSlowRenames) -> None:
    partition = await moving.lead()
    gate = gate_of(disk, stage)
    await in_hold(moving, partition, disk, gate)
    sent = moving.sent
    assert moving.alter(0) is ErrorCode.NONE
    assert moving.asked == [1, 0]
    await until(lambda: not partition.is_held and moving.sent > sent + 20)
    gate.open.set()
    await moving.finish_producing()
    await settled(moving, lambda: moving.names(1) == ["delete"])
    assert moving.names(0) == ["current"]
    moving.check()


@pytest.mark.parametrize("is_put_off", [False, True])
async def test_an_epoch_that_begins_while_the_copy_gets_its_name_goes_along(
    monkeypatch: pytest.MonkeyPatch, is_put_off: bool, moving: Moving, disk: DiskWithSlowRenames
) -> None:
    partition = await moving.lead()
    await in_hold(moving, partition, disk, disk.renames)
    del partition.hold  # the next one is an ordinary one
    is_free = threading.Event()
    busy = moving.host.dirs[0].run(is_free.wait)
    moving.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=ME))
    epoch = partition.registration.leader_epoch
    assert not moving.log.is_settled
    if is_put_off:
        monkeypatch.setattr(directory_swap, "HOLD_MAX_S", 0.05)
    disk.renames.open.set()
    await until(lambda: moving.names(1) == ["future" if is_put_off else "current"])
    await until(lambda: partition.is_held is not is_put_off)
    monkeypatch.setattr(directory_swap, "HOLD_MAX_S", HOLD_MAX_S)
    is_free.set()
    await busy
    await moving.over()
    await moving.finish_producing()
    assert moving.log.log_dir is moving.host.dirs[1]
    assert moving.log.epochs.latest_epoch == epoch
    moving.check()


@pytest.mark.parametrize("stage", ["copying", "renaming"])
async def test_a_target_that_hangs_does_not_hold_appends_for_long(
    stage: str, moving: Moving, disk: DiskWithSlowRenames
) -> None:
    partition = await moving.lead()
    gate = gate_of(disk, stage)
    await in_hold(moving, partition, disk, gate)
    partition.hold = partial(type(partition).hold, partition)  # type: ignore[method-assign]
    sent = moving.sent
    set_forward(HOLD_MAX_S)
    await until(lambda: not partition.is_held and moving.sent > sent + 20)
    assert moving.log.log_dir is moving.host.dirs[0]
    assert moving.move().state is MoveState.ASSIGNMENT_ACCEPTED
    gate.open.set()
    # It is tried again, with everything that came meanwhile.
    await moving.over()
    await moving.finish_producing()
    assert moving.log.log_dir is moving.host.dirs[1]
    await settled(moving, lambda: moving.names(0) == ["delete"])
    assert moving.names(1) == ["current"]
    assert moving.asked == [1]
    moving.check()


async def settled(moving: Moving, condition: Callable[[], bool]) -> None:
    await until(condition)
    # And it stays so.
    await quiet(moving.host.dirs)
    assert condition()
