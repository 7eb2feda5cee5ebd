"""A disk that hangs or dies while its threads are at work of any length."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pytest

from broker.disk.upkeep.probe import LogDirProbe
from tests.broker.disks import DeadDisk, FaultPlan, eventually, make_log_dirs


@pytest.mark.parametrize("queue", ["run", "upkeep"])
@pytest.mark.parametrize("dies", [True, False], ids=["dies", "hangs"])
async def test_disk_that_dies_or_hangs_beside_a_long_call_is_found(
    tmp_path: Path, queue: str, dies: bool
) -> None:
    fs = DeadDisk()
    log_dirs = make_log_dirs(tmp_path, fs=fs)
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=100)
    resume = threading.Event()
    getattr(log_dirs.all[0], queue)(lambda: resume.wait(20))
    watcher.start()

    if dies:
        fs.error = errno.EIO
    else:
        fs.resume = resume

    await eventually(lambda: not log_dirs.all[0].is_online)
    cause = "Input/output error" if dies else "HUNG: no answer within 100 ms"
    assert cause in (log_dirs.all[0].cause or "")
    assert len(log_dirs.online()) == 2
    resume.set()
    await watcher.stop()


async def test_steps_that_together_take_longer_than_the_deadline_are_no_hang(
    tmp_path: Path,
) -> None:
    syncs: list[object] = []

    def slow(path: Path) -> None:
        time.sleep(0.15)

    fs = FaultPlan({"write_bytes": slow, "unlink": slow})
    fs.plan["fsync_file"] = lambda path: (slow(path), syncs.append(path))
    log_dirs = make_log_dirs(tmp_path, fs=fs)
    (first, *_) = log_dirs.all
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=300)
    watcher.start()

    def many() -> None:
        for number in range(5):
            first.upkeep_fs.write_bytes(first.path / str(number), b"", sync=True)

    await first.upkeep(many)
    await eventually(lambda: len(syncs) > 8)

    assert first.is_online
    await watcher.stop()
