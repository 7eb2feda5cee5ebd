"""The end of a clean stop: however many logs there are, and however slow the disk is."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

from broker.bounds.limits import SYNCS_AT_ONCE
from broker.disk.life.closing import close_log_dirs
from jbodlab.storage.directory.checkpoints import read_offsets
from jbodlab.vocabulary.ids import BrokerEpoch
from tests.broker.disks import DeadDisk, FaultPlan, fails, make_log_dirs
from tests.broker.logs import Hosted, append, make_log


def filled(tmp_path: Path, count: int) -> Hosted:
    """Make so many logs with a record each in d1."""
    replicas = Hosted()
    for number in range(count):
        log = make_log(tmp_path / "d1", number)
        append(log)
        replicas.put(log, 1)
    return replicas


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

    disk = FaultPlan({"fsync_dir": synced.append})
    log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
    replicas = filled(tmp_path, 3)
    synced.clear()
    assert await close_log_dirs(log_dirs, replicas, BrokerEpoch(7), hang_deadline_s=10)
    before_the_marker = synced[: synced.index(tmp_path / "d1") + 1]
    assert {tmp_path / "d1" / f"orders-{n}" for n in range(3)} <= set(before_the_marker)


async def test_closing_syncs_what_is_not_on_the_disk_and_nothing_else(tmp_path: Path) -> None:
    synced: list[str] = []
    disk = FaultPlan({"fsync_file": lambda path: synced.append(f"{path.parent.name}/{path.name}")})
    disk.plan["fsync_dir"] = lambda path: synced.append(path.name)
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

    assert sorted(each for each in synced if each.startswith("orders")) == [
        "orders-1/00000000000000000000.log",
        "orders-2",
        "orders-2/leader-epoch-checkpoint",
    ]


async def test_the_logs_of_a_directory_are_synced_by_several_threads(tmp_path: Path) -> None:
    """None of them returns before all have begun."""
    count = SYNCS_AT_ONCE
    together = threading.Barrier(count)
    disk = FaultPlan({"fsync_file": lambda path: path.suffix != ".log" or together.wait(20)})
    log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
    replicas = filled(tmp_path, 3 * count)

    assert await close_log_dirs(log_dirs, replicas, BrokerEpoch(7), hang_deadline_s=10)

    assert (tmp_path / "d1" / ".kafka_cleanshutdown").exists()
    points = read_offsets(disk, tmp_path / "d1" / "recovery-point-offset-checkpoint")
    assert list(points.values()) == [1] * (3 * count)


async def test_a_directory_in_which_a_sync_fails_is_not_marked_as_clean(tmp_path: Path) -> None:
    disk = FaultPlan({"fsync_file": fails(errno.EIO, f"orders-2/{0:020}.log")})
    log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
    replicas = filled(tmp_path, 4)

    assert not await close_log_dirs(log_dirs, replicas, BrokerEpoch(7), hang_deadline_s=10)

    assert not (tmp_path / "d1" / ".kafka_cleanshutdown").exists()
