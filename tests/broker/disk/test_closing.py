"""The end of a clean stop: however many logs there are, and however slow the disk is."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from broker.disk.closing import close_log_dirs
from jbodlab.ids import BrokerEpoch
from jbodlab.log.filesystem import PosixFileSystem
from tests.broker.disks import DeadDisk, make_log_dirs, run
from tests.broker.logs import Hosted, append, make_log


def test_closing_takes_as_long_as_its_steps_take_and_gives_up_one_that_hangs(
    tmp_path: Path,
) -> None:
    """Many logs on a slow disk are no hang."""

    class SlowDisk(DeadDisk):
        def check(self, path: Path) -> None:
            if self.resume is None:
                time.sleep(0.02)
            super().check(path)

    async def body() -> None:
        disk = SlowDisk()
        log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
        replicas = Hosted()
        for number in range(8):
            log = make_log(tmp_path / "d1", number)
            append(log, count=2)
            replicas.put(log, 0)
        assert await close_log_dirs(log_dirs, replicas, BrokerEpoch(7), hang_deadline_s=0.3)
        assert (tmp_path / "d1" / ".kafka_cleanshutdown").exists()

        disk.resume = threading.Event()
        assert not await close_log_dirs(log_dirs, Hosted(), BrokerEpoch(8), hang_deadline_s=0.1)
        disk.resume.set()
        log_dirs.stop()

    run(body)


def test_closing_syncs_the_directory_of_all_logs_once(tmp_path: Path) -> None:
    synced: list[Path] = []

    class Disk(PosixFileSystem):
        def fsync_dir(self, path: Path) -> None:
            synced.append(path)
            super().fsync_dir(path)

    async def body() -> None:
        log_dirs = make_log_dirs(tmp_path, 1, fs=Disk())
        replicas = Hosted()
        for number in range(3):
            log = make_log(tmp_path / "d1", number)
            append(log)
            replicas.put(log, 0)
        synced.clear()
        assert await close_log_dirs(log_dirs, replicas, BrokerEpoch(7), hang_deadline_s=10)
        before_the_marker = synced[: synced.index(tmp_path / "d1") + 1]
        assert {tmp_path / "d1" / f"orders-{n}" for n in range(3)} <= set(before_the_marker)
        log_dirs.stop()

    run(body)
