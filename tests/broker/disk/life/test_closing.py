"""The end of a clean stop: however many logs there are, and however slow the disk is."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

from broker.disk.life.closing import close_log_dirs
from broker.limits import SYNCS_AT_ONCE
from jbodlab.storage.directory.checkpoints import read_offsets
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.ids import BrokerEpoch
from tests.broker.disks import DeadDisk, make_log_dirs
from tests.broker.logs import Hosted, append, make_log


async def test_closing_takes_as_long_as_its_steps_take_and_gives_up_one_that_hangs(
    tmp_path: Path,
) -> None:
    """Many logs on a slow disk are no hang."""

    class SlowDisk(DeadDisk):
        def check(self, path: Path) -> None:
            if self.resume is None:
                time.sleep(0.02)
            super().check(path)

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


async def test_closing_syncs_the_directory_of_all_logs_once(tmp_path: Path) -> None:
    synced: list[Path] = []

    class Disk(PosixFileSystem):
        def fsync_dir(self, path: Path) -> None:
            synced.append(path)
            super().fsync_dir(path)

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


class CountingDisk(PosixFileSystem):
    """A disk that notes what is synced, and lets syncs of files wait for so many at once."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.together: threading.Barrier | None = None

    def fsync_file(self, path: Path) -> None:
        self.synced.append(f"{path.parent.name}/{path.name}")
        if self.together is not None and path.suffix == ".log":
            self.together.wait(20)
        super().fsync_file(path)

    def fsync_dir(self, path: Path) -> None:
        self.synced.append(path.name)
        super().fsync_dir(path)


async def test_closing_syncs_what_is_not_on_the_disk_and_nothing_else(tmp_path: Path) -> None:
    disk = CountingDisk()
    log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
    replicas = Hosted()
    logs = [make_log(tmp_path / "d1", number) for number in range(3)]
    for log in logs:
        append(log)
        log.flush()
        replicas.put(log, 0)
    append(logs[1])
    logs[2].assign_epoch(7)

    assert await close_log_dirs(log_dirs, replicas, BrokerEpoch(7), hang_deadline_s=10)

    assert sorted(each for each in disk.synced if each.startswith("orders")) == [
        "orders-1/00000000000000000000.log",
        "orders-2",
        "orders-2/leader-epoch-checkpoint",
    ]


async def test_the_logs_of_a_directory_are_synced_by_several_threads(tmp_path: Path) -> None:
    """None of them returns before all have begun."""

    disk = CountingDisk()
    log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
    replicas = Hosted()
    count = SYNCS_AT_ONCE
    for number in range(3 * count):
        log = make_log(tmp_path / "d1", number)
        append(log)
        replicas.put(log, 1)
    disk.together = threading.Barrier(count)

    assert await close_log_dirs(log_dirs, replicas, BrokerEpoch(7), hang_deadline_s=10)

    assert (tmp_path / "d1" / ".kafka_cleanshutdown").exists()
    points = read_offsets(disk, tmp_path / "d1" / "recovery-point-offset-checkpoint")
    assert list(points.values()) == [1] * (3 * count)


async def test_a_directory_in_which_a_sync_fails_is_not_marked_as_clean(tmp_path: Path) -> None:
    class FailingDisk(CountingDisk):
        def fsync_file(self, path: Path) -> None:
            if path.parent.name == "orders-2" and path.suffix == ".log":
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            super().fsync_file(path)

    log_dirs = make_log_dirs(tmp_path, 1, fs=FailingDisk())
    replicas = Hosted()
    for number in range(4):
        log = make_log(tmp_path / "d1", number)
        append(log)
        replicas.put(log, 1)

    assert not await close_log_dirs(log_dirs, replicas, BrokerEpoch(7), hang_deadline_s=10)

    assert not (tmp_path / "d1" / ".kafka_cleanshutdown").exists()
