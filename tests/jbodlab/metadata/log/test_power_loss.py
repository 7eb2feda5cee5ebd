"""A loss of power at any call to the disk: the metadata log opens and has what was synced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.frame import VersionedRecord
from tests.metadata_batches import data_batch
from tests.simulation.disk import LOSSES, DiskView, Medium, SimDisk
from tests.simulation.loop import SimLoop

HOME = Path("/d/metadata")
PER_SEGMENT = 3
POWERED = 1 << 30
"""Calls that a disk takes whose power does not go."""


def batch(offset: int, epoch: int) -> bytes:
    """One record; the text of another epoch is another one."""
    record = VersionedRecord(ConfigRecord(name="n", value=f"{epoch:030}"), 0)
    return data_batch([record], base_offset=offset, epoch=epoch, timestamp_ms=1000)


SIZE = len(batch(0, 1))


class PowerLostError(Exception):
    """The process is gone."""


class WeakDisk(SimDisk):
    """A disk whose power goes at one of its calls."""

    calls_left = POWERED

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise PowerLostError
        return super().run(*args, **kwargs)


class Work:
    """Calls on a log, and the bytes of it that may be found afterwards.

    Attributes:
        batches: All that may be there, each with one record.
        least: How many of them must be there.
        first: Offset at or before which the log begins.
    """

    def __init__(self, loop: SimLoop, seed: int, *, is_shuffled: bool, is_copy: bool) -> None:
        self.disk = WeakDisk(loop, Path("/d"), Medium(1, 1 << 40, is_ordered=False), str(seed))
        self.disk.medium.is_shuffled = is_shuffled
        self.disk.random = Random(seed)
        self.is_copy = is_copy
        self.batches: list[bytes] = []
        self.least = self.first = 0
        DiskView(self.disk).mkdir(HOME)
        self.disk.medium.sync_all()
        self.disk.calls_left = POWERED

    def open(self) -> MetadataLog:
        return MetadataLog.open(
            HOME,
            fs=DiskView(self.disk),
            segment_bytes=PER_SEGMENT * SIZE,
            is_copy=self.is_copy,
        )

    def append(self, log: MetadataLog, epoch: int, count: int) -> None:
        new = [batch(len(self.batches) + number, epoch) for number in range(count)]
        self.batches += new
        log.append(b"".join(new))

    def flush(self, log: MetadataLog) -> None:
        log.flush()
        self.least = len(self.batches)

    def truncate(self, log: MetadataLog, end: int) -> None:
        self.least = min(self.least, end)
        log.truncate_to(end)
        assert log.end_offset == end
        del self.batches[end:]
        self.least = end

    def delete_below(self, log: MetadataLog, offset: int) -> None:
        self.first = offset
        log.delete_segments_below(offset)

    def do(self) -> None:
        log = self.open()
        self.append(log, 1, 1)
        self.flush(log)
        for epoch in (2, 3):
            # Over the borders of several segments at once.
            self.append(log, epoch, 7)
            self.append(log, epoch, 1)
            self.flush(log)
        self.truncate(log, 5)
        self.append(log, 4, 1)
        self.flush(log)
        self.append(log, 5, 9)
        self.flush(log)
        self.delete_below(log, 7)
        self.append(log, 5, 3)
        self.truncate(log, 12)
        log.close()
        log = self.open()
        self.append(log, 6, 2)
        self.flush(log)

    def check(self) -> None:
        """Open the log and compare it."""
        log = self.open()
        start, end = log.start_offset, log.end_offset
        assert start <= self.first
        if not self.is_copy:
            assert self.least <= end
        found = b""
        while data := log.read(start + len(found) // SIZE):
            found += data
        assert found == b"".join(self.batches[start:end])
        log.append(batch(end, 9))
        assert log.last_epoch == 9
        log.close()


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop("1")
    yield loop
    loop.close()


@pytest.mark.parametrize("is_copy", [False, True], ids=["controllers", "copy"])
@pytest.mark.parametrize("is_shuffled", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_of_power_at_any_call_leaves_a_log_that_opens(
    loop: SimLoop, loss: str, is_shuffled: bool, is_copy: bool
) -> None:
    def work(seed: int) -> Work:
        return Work(loop, seed, is_shuffled=is_shuffled, is_copy=is_copy)

    whole = work(0)
    whole.do()
    calls = POWERED - whole.disk.calls_left
    assert calls > 100
    # Each way of loss tries other calls of three, and all of them together each call.
    for step in range(LOSSES.index(loss) % 3, calls, 3):
        broken = work(step)
        broken.disk.calls_left = step
        with pytest.raises(PowerLostError):
            broken.do()
        broken.disk.calls_left = POWERED
        broken.disk.lose_power(loss)

        broken.check()


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.truncate_to(4),
        lambda log: log.reset_to(0),
        lambda log: log.delete_segments_below(7),
    ],
    ids=["truncated", "reset", "cleaned"],
)
def test_a_start_that_ends_where_a_removal_is_finished_can_be_repeated(
    loop: SimLoop, change: Callable[[MetadataLog], object]
) -> None:
    """A process dies in the middle of a removal, and the next one in the middle of its start."""

    def broken_at(step: int) -> Work | None:
        work = Work(loop, step, is_shuffled=False, is_copy=False)
        log = work.open()
        work.append(log, 1, 10)
        work.flush(log)
        work.first, work.least = 10, 0
        work.disk.calls_left = step
        try:
            change(log)
        except PowerLostError:
            return work
        return None

    step = starts = 0
    while broken_at(step) is not None:
        for calls in range(step % 7, 60, 7):
            work = broken_at(step)
            assert work is not None
            work.disk.calls_left = calls
            with contextlib.suppress(PowerLostError):
                work.open()
            work.disk.calls_left = POWERED
            work.check()
            starts += 1
        step += 1
    assert step > 10
    assert starts > 100
