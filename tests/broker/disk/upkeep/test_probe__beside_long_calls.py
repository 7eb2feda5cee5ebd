"""A disk that hangs or dies while its threads are at work of any length."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pytest

from broker.disk.upkeep.probe import LogDirProbe
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from tests.broker.disks import FaultyFileSystem, eventually, make_log_dirs


class SlowFileSystem(PosixFileSystem):
    """A disk on which each of the steps of a probe takes a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.syncs = 0

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        time.sleep(self.seconds)
        super().write_bytes(path, data, sync=sync)

    def fsync_file(self, path: Path) -> None:
        time.sleep(self.seconds)
        self.syncs += 1
        super().fsync_file(path)

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        time.sleep(self.seconds)
        super().unlink(path, missing_ok=missing_ok)


@pytest.mark.parametrize("queue", ["run", "upkeep"])
async def test_disk_that_hangs_beside_a_long_call_is_found(tmp_path: Path, queue: str) -> None:
    fs = FaultyFileSystem()
    log_dirs = make_log_dirs(tmp_path, fs=fs)
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=100)
    resume = threading.Event()
    getattr(log_dirs.all[0], queue)(lambda: resume.wait(20))
    watcher.start()

    fs.resume = threading.Event()

    await eventually(lambda: not log_dirs.all[0].is_online)
    assert log_dirs.all[0].cause == "HUNG: no answer within 100 ms"
    assert len(log_dirs.online()) == 2
    fs.resume.set()
    resume.set()
    await watcher.stop()


@pytest.mark.parametrize("queue", ["run", "upkeep"])
async def test_disk_that_dies_beside_a_long_call_is_found(tmp_path: Path, queue: str) -> None:
    fs = FaultyFileSystem()
    log_dirs = make_log_dirs(tmp_path, fs=fs)
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=100)
    resume = threading.Event()
    getattr(log_dirs.all[0], queue)(lambda: resume.wait(20))
    watcher.start()

    fs.error = errno.EIO

    await eventually(lambda: not log_dirs.all[0].is_online)
    assert "Input/output error" in (log_dirs.all[0].cause or "")
    resume.set()
    await watcher.stop()


async def test_steps_that_together_take_longer_than_the_deadline_are_no_hang(
    tmp_path: Path,
) -> None:
    fs = SlowFileSystem(0.15)
    log_dirs = make_log_dirs(tmp_path, fs=fs)
    (first, *_) = log_dirs.all
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=300)
    watcher.start()

    def many() -> None:
        for number in range(5):
            first.upkeep_fs.write_bytes(first.path / str(number), b"", sync=True)

    await first.upkeep(many)
    await eventually(lambda: fs.syncs >= 8)

    assert first.is_online
    await watcher.stop()
