from __future__ import annotations

import asyncio
import errno
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.bounds.limits import DENIAL_S
from broker.disk.condition.condition import HEALTHY, DegradedLogDirs, DirectoryCondition, is_hung
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.slowness import SlowSettings
from broker.disk.upkeep.condition_monitor import ConditionMonitor, ConditionSettings, Look
from broker.disk.upkeep.probe import LogDirProbe
from tests.broker.disks import (
    FaultPlan,
    directory_id,
    eventually,
    fails,
    make_log_dir,
    make_log_dirs,
)
from tests.waiting import pass_by, set_forward

FULL, SLOW = DirectoryCondition(is_full=True), DirectoryCondition(is_slow=True)
QUICK = SlowSettings(threshold_ms=0, outlier_factor=5, min_ms=20, window_ms=1_000)


class SlowDisk(FaultPlan):
    """A disk of a given size on which writing whole files takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.delay_s = 0.0
        self.calls = 0
        self.usage = (1_000_000, 500_000)

    def write_bytes(self, path: Path, data: bytes, *, sync: bool) -> None:
        self.calls += 1
        time.sleep(self.delay_s)
        super().write_bytes(path, data, sync=sync)

    def disk_usage(self, path: Path) -> tuple[int, int]:
        return self.usage


class Heard:
    """Remembers what listeners are told."""

    def __init__(self) -> None:
        self.conditions: list[tuple[str, DirectoryCondition]] = []
        self.degraded: list[DegradedLogDirs] = []

    def log_dir_condition_changed(self, log_dir: LogDir) -> None:
        self.conditions.append((log_dir.path.name, log_dir.condition))


def make_monitor(
    log_dirs: LogDirs,
    *,
    reserved_bytes: int = 100,
    slow: SlowSettings = QUICK,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> tuple[ConditionMonitor, Heard]:
    heard = Heard()
    monitor = ConditionMonitor(
        log_dirs,
        ConditionSettings(reserved_bytes=reserved_bytes, slow=slow),
        on_degraded=heard.degraded.append,
        monotonic_s=monotonic_s,
    )
    monitor.add_listener(heard)
    log_dirs.add_failure_listener(monitor)
    return monitor, heard


def separate_disks(tmp_path: Path, count: int) -> tuple[LogDirs, list[SlowDisk]]:
    """Directories that do not know to be on one file system, each on a disk of its own."""
    disks = [SlowDisk() for _ in range(count)]
    dirs = [make_log_dir(tmp_path / f"d{n}", n, disk) for n, disk in enumerate(disks, 1)]
    for log_dir in dirs:
        log_dir.identity = None
    metadata_dir = make_log_dir(tmp_path / "metadata", 99)
    return LogDirs(dirs, metadata_dir=metadata_dir, on_fatal=lambda _: None), disks


async def test_full_comes_and_goes_with_the_looks_and_everybody_hears_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log_dirs, _ = separate_disks(tmp_path, 2)
    monitor, heard = make_monitor(log_dirs)
    first, second = log_dirs.all

    monitor.looked(second, Look(10_000, 5_000))
    for free_bytes in (100, 99, 120, 150):
        monitor.looked(first, Look(10_000, free_bytes))

    assert heard.conditions == [("d1", FULL), ("d1", HEALTHY)]
    assert heard.degraded == [
        DegradedLogDirs(degraded=(directory_id(1),), full=(directory_id(1),)),
        DegradedLogDirs(),
    ]
    assert monitor.changes == {first.path: 2, second.path: 0}
    events = [r for r in caplog.records if "is FULL" in r.message or "is HEALTHY" in r.message]
    assert [each.levelno for each in events] == [logging.WARNING, logging.INFO]
    assert events[0].message == (
        f"log directory {first.path} ({first.id_text}) is FULL, was HEALTHY: "
        "99 of 10000 bytes usable, 100 reserved; no longer FULL from 150 usable bytes on"
    )
    assert vars(events[0])["log_dir"] == str(first.path)


async def test_an_append_that_finds_no_room_makes_its_directory_full_on_the_spot(
    tmp_path: Path,
) -> None:
    log_dirs, _ = separate_disks(tmp_path, 2)
    monitor, heard = make_monitor(log_dirs)
    first = log_dirs.all[0]
    monitor.looked(first, Look(10_000, 1_000))

    assert first.space.takes(900)
    first.space.charge(900)
    assert not first.space.takes(1)

    assert heard.conditions == [("d1", FULL)]
    assert heard.degraded == [DegradedLogDirs(degraded=(directory_id(1),), full=(directory_id(1),))]
    first.space.settle(900)


async def test_directories_on_one_file_system_are_full_together(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 2)
    monitor, heard = make_monitor(log_dirs)
    for log_dir in log_dirs.all:
        monitor.looked(log_dir, Look(10_000, 1_000))

    assert not log_dirs.all[0].space.takes(901)

    assert heard.conditions == [("d1", FULL), ("d2", FULL)]


async def test_a_directory_that_fails_is_in_no_condition(tmp_path: Path) -> None:
    log_dirs, _ = separate_disks(tmp_path, 2)
    monitor, heard = make_monitor(log_dirs)
    first = log_dirs.all[0]
    monitor.looked(first, Look(10_000, 0))

    log_dirs.fail(first, "[Errno 28] No space left on device")

    assert first.condition == HEALTHY
    assert heard.degraded[-1] == DegradedLogDirs()
    # Results that its thread still had to say come too late.
    monitor.looked(first, Look(10_000, 0))
    assert first.condition == HEALTHY


async def test_the_first_look_comes_before_anything_is_written(tmp_path: Path) -> None:
    log_dirs, disks = separate_disks(tmp_path, 2)
    disks[0].usage = (1_000_000, 99)
    monitor, _ = make_monitor(log_dirs)

    await monitor.first_look(2_000)

    assert [log_dir.condition for log_dir in log_dirs.all] == [FULL, HEALTHY]
    assert list((tmp_path / "d1").iterdir()) == []


async def test_a_directory_that_does_not_answer_the_first_look_holds_nobody_up_and_is_hung(
    tmp_path: Path,
) -> None:
    log_dirs, disks = separate_disks(tmp_path, 2)
    resume = threading.Event()
    disks[0].plan["disk_usage"] = lambda _: resume.wait(20)
    disks[1].usage = (1_000_000, 99)
    monitor, _ = make_monitor(log_dirs)

    await monitor.first_look(50)

    assert [log_dir.condition for log_dir in log_dirs.all] == [HEALTHY, FULL]
    probe = LogDirProbe(log_dirs, interval_ms=50, deadline_ms=100, looked=monitor.looked)
    probe.start()
    await eventually(lambda: is_hung(log_dirs.all[0].cause))
    assert log_dirs.all[1].is_online
    resume.set()
    await probe.stop()
    await monitor.stop()


async def test_a_disk_that_does_not_tell_its_size_is_not_full(tmp_path: Path) -> None:
    log_dirs, _ = separate_disks(tmp_path, 1)
    monitor, heard = make_monitor(log_dirs)

    monitor.looked(log_dirs.all[0], None)

    assert log_dirs.all[0].space.takes(1 << 60)
    assert heard.conditions == []


async def test_a_disk_that_answers_later_than_its_peers_is_slow_until_it_is_quick(
    tmp_path: Path,
) -> None:
    log_dirs, disks = separate_disks(tmp_path, 3)
    monitor, heard = make_monitor(log_dirs)
    probe = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=5_000, looked=monitor.looked)
    monitor.start()
    probe.start()
    await eventually(lambda: len(monitor.latencies_ms(log_dirs.all[2])) == 1)

    disks[0].delay_s = 0.15
    await eventually(lambda: log_dirs.all[0].condition == SLOW)
    disks[0].delay_s = 0
    await eventually(lambda: log_dirs.all[0].condition == HEALTHY)

    assert heard.conditions == [("d1", SLOW), ("d1", HEALTHY)]
    assert heard.degraded[0].tolerated == (directory_id(1),)
    await probe.stop()
    await monitor.stop()


async def test_where_all_disks_answer_late_none_is_slow(tmp_path: Path) -> None:
    log_dirs, disks = separate_disks(tmp_path, 3)
    monitor, heard = make_monitor(log_dirs)
    probe = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=5_000, looked=monitor.looked)
    for disk in disks:
        disk.delay_s = 0.15
    monitor.start()
    probe.start()

    await eventually(
        lambda: all(monitor.latencies_ms(each).get("probe", 0) > 100 for each in log_dirs.all)
    )
    begun = [disk.calls for disk in disks]
    await eventually(lambda: all(disk.calls >= n + 3 for disk, n in zip(disks, begun, strict=True)))

    assert heard.conditions == []
    await probe.stop()
    await monitor.stop()


async def test_a_process_that_stands_still_makes_no_disk_slow(tmp_path: Path) -> None:
    monotonic_s = asyncio.get_running_loop().time
    log_dirs, _ = separate_disks(tmp_path, 1)
    slow = SlowSettings(threshold_ms=20, min_ms=20, window_ms=10_000)
    monitor, heard = make_monitor(log_dirs, slow=slow, monotonic_s=monotonic_s)
    (log_dir,) = log_dirs.all
    monitor.start()
    for _ in range(8):
        # A call that began before this process stood still and ended with it.
        await pass_by(0.11)
        begun_s = monotonic_s()
        set_forward(0.25)
        log_dir.io_samples.note(
            # It also covers the time until the loop should have run.
            next(iter(log_dir.io_samples.take())),
            begun_s + 0.15,
            monotonic_s(),
        )
        monitor.looked(log_dir, None)

    assert monitor.latencies_ms(log_dir)["probe"] < 10
    assert heard.conditions == []
    await monitor.stop()


async def test_a_disk_that_took_no_more_is_full_whatever_it_says_until_it_takes_files_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk, refusing = SlowDisk(), fails(errno.EDQUOT)
    log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
    (log_dir,) = log_dirs.all
    monitor, heard = make_monitor(log_dirs)
    probe = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=10_000, looked=monitor.looked)
    probe.start()
    await eventually(lambda: log_dir.space.disk.usable_bytes is not None)

    disk.plan["write_bytes"] = refusing
    await eventually(lambda: log_dir.condition.is_full)
    assert log_dir.is_online
    assert "a write failed for lack of space" in caplog.text

    # Half of it is free, as the disk says; it is believed when it takes files.
    disk.plan.clear()
    await eventually(lambda: not log_dir.condition.is_full)
    assert heard.conditions == [("d1", FULL), ("d1", HEALTHY)]

    # Soon again: it is believed after a while.
    disk.plan["write_bytes"] = refusing
    await eventually(lambda: log_dir.condition.is_full)
    disk.plan.clear()
    disk.calls = 0
    await eventually(lambda: disk.calls > 3)
    assert log_dir.condition.is_full
    log_dir.space.disk._denied_s -= DENIAL_S
    await eventually(lambda: not log_dir.condition.is_full)
    assert heard.conditions == [("d1", FULL), ("d1", HEALTHY)] * 2
    await probe.stop()
