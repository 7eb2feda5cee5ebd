from __future__ import annotations

import errno
import threading
from pathlib import Path

from broker.logdirs.probe import LogDirProbe
from tests.broker.disks import FaultyFileSystem, eventually, make_log_dirs, run


def test_disk_that_hangs_in_a_long_call_is_asked_aside(tmp_path: Path) -> None:
    async def body() -> None:
        fs = FaultyFileSystem()
        log_dirs = make_log_dirs(tmp_path, fs=fs)
        watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=100)
        resume = threading.Event()
        log_dirs.all[0].run(lambda: resume.wait(20), is_long=True)
        watcher.start()

        fs.resume = threading.Event()

        await eventually(lambda: not log_dirs.all[0].is_online)
        assert log_dirs.all[0].cause == "HUNG: no answer within 0.1 s"
        assert len(log_dirs.online()) == 2
        fs.resume.set()
        resume.set()
        await watcher.stop()
        log_dirs.stop()

    run(body)


def test_disk_that_dies_in_a_long_call_is_found_meanwhile(tmp_path: Path) -> None:
    async def body() -> None:
        fs = FaultyFileSystem()
        log_dirs = make_log_dirs(tmp_path, fs=fs)
        watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=100)
        resume = threading.Event()
        log_dirs.all[0].run(lambda: resume.wait(20), is_long=True)
        watcher.start()

        fs.error = errno.EIO

        await eventually(lambda: not log_dirs.all[0].is_online)
        assert "Input/output error" in (log_dirs.all[0].cause or "")
        resume.set()
        await watcher.stop()
        log_dirs.stop()

    run(body)
