"""Every kind of I/O error, at everything that a broker does to a directory."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from broker.disk.calls.no_space import NoSpaceError, fsync_or_fail
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.upkeep.probe import LogDirProbe
from jbodlab.storage.directory.checkpoints import write_offsets
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.errors import LogDirError
from tests.broker.disks import DeadDisk, eventually, failed_ids, make_log_dirs
from tests.broker.logs import TOPIC_ID, append, topic_partition
from tests.jbodlab.storage.log.direct_log import DirectLog

KINDS = ("EIO", "EACCES", "EROFS", "ENOENT", "ENOTDIR")


def _roll(log_dir: LogDir, log: DirectLog) -> None:
    log.roll()


def _create(log_dir: LogDir, log: DirectLog) -> None:
    DirectLog.create(log_dir.fs, log_dir.path, topic_partition(7), TOPIC_ID, LogConfig())


def _checkpoint(log_dir: LogDir, log: DirectLog) -> None:
    write_offsets(log_dir.fs, log_dir.path / "replication-offset-checkpoint", {})


WORK: dict[str, Callable[[LogDir, DirectLog], object]] = {
    "append": lambda _, log: append(log),
    "flush": lambda _, log: log.flush(),
    "roll": _roll,
    "checkpoint": _checkpoint,
    "create": _create,
    "delete": lambda _, log: log.rename_to_delete(),
    "read": lambda _, log: log.read(0, 1000),
    "truncate": lambda _, log: log.truncate_to(1),
    "epoch": lambda _, log: log.assign_epoch(5),
    "remove": lambda log_dir, log: log_dir.fs.rmtree(log.directory),
}


async def on_dead_disk(tmp_path: Path, fatal: list[str]) -> tuple[DeadDisk, LogDirs, DirectLog]:
    disk = DeadDisk()
    log_dirs = make_log_dirs(tmp_path, fs=disk, on_fatal=fatal.append)
    first = log_dirs.all[0]
    log = await first.run(
        lambda: DirectLog.create(first.fs, first.path, topic_partition(0), TOPIC_ID, LogConfig())
    )
    await first.run(lambda: append(log, count=3))
    return disk, log_dirs, log


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("work", WORK)
async def test_io_error_takes_exactly_its_directory_offline(
    tmp_path: Path, kind: str, work: str
) -> None:
    fatal: list[str] = []
    disk, log_dirs, log = await on_dead_disk(tmp_path, fatal)
    first, *others = log_dirs.all

    disk.error = getattr(errno, kind)
    with pytest.raises(LogDirError):
        await first.run(lambda: WORK[work](first, log))

    assert not first.is_online
    assert os.strerror(disk.error) in (first.cause or "")
    assert [each.is_online for each in others] == [True, True]
    assert failed_ids(log_dirs) == (first.directory_id,)
    # More errors of the same disk, and more work for it, change nothing.
    first.clean_up(lambda: append(log))
    with pytest.raises(LogDirError):
        await first.run(lambda: append(log))
    assert await others[0].run(lambda: "unharmed") == "unharmed"
    assert not fatal


@pytest.mark.parametrize("kind", ["ENOSPC", "EDQUOT"])
@pytest.mark.parametrize("work", ["checkpoint", "create", "delete"])
async def test_disk_that_takes_no_more_leaves_its_directory_online(
    tmp_path: Path, kind: str, work: str
) -> None:
    fatal: list[str] = []
    disk, log_dirs, log = await on_dead_disk(tmp_path, fatal)
    first = log_dirs.all[0]

    disk.error = getattr(errno, kind)
    with pytest.raises(NoSpaceError, match=os.strerror(disk.error)):
        await first.run(lambda: WORK[work](first, log))

    assert len(log_dirs.online()) == 3
    assert first.space.disk.is_full
    disk.error = None
    assert await first.run(lambda: log.read(0, 1000))
    assert not fatal


async def test_a_sync_that_finds_no_room_condemns_the_directory(tmp_path: Path) -> None:
    """Data that it was to bring to the disk is gone from memory as well."""
    disk, log_dirs, log = await on_dead_disk(tmp_path, [])
    first = log_dirs.all[0]
    disk.error = errno.ENOSPC
    with pytest.raises(LogDirError):
        await first.upkeep(partial(fsync_or_fail, log.flush))
    assert not first.is_online


@pytest.mark.parametrize("work", WORK)
async def test_call_that_never_returns_takes_exactly_its_directory_offline(
    tmp_path: Path, work: str
) -> None:
    fatal: list[str] = []
    disk, log_dirs, log = await on_dead_disk(tmp_path, fatal)
    first, *others = log_dirs.all
    watcher = LogDirProbe(log_dirs, interval_ms=60_000, deadline_ms=100)
    watcher.start()
    await eventually(lambda: not any(queue.running_call for queue in first.queues.values()))

    disk.resume = threading.Event()
    hanging = first.run(lambda: WORK[work](first, log))

    await eventually(lambda: not first.is_online)
    with pytest.raises(LogDirError):
        await hanging
    assert [each.is_online for each in others] == [True, True]
    assert await others[0].run(lambda: "unharmed") == "unharmed"
    assert not fatal
    disk.resume.set()
    await watcher.stop()


@pytest.mark.parametrize("kind", ["ENAMETOOLONG", "EMFILE", "ENOMEM"])
async def test_own_fault_of_the_process_costs_no_directory(tmp_path: Path, kind: str) -> None:
    disk, log_dirs, log = await on_dead_disk(tmp_path, [])
    disk.error = getattr(errno, kind)
    with pytest.raises(Exception, match=os.strerror(disk.error)):
        await log_dirs.all[0].run(lambda: append(log))
    assert len(log_dirs.online()) == 3


async def test_directory_that_fails_while_another_failure_is_handled(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path)
    told: list[str] = []

    class Listener:
        def log_dir_failed(self, log_dir: LogDir, error: LogDirError) -> None:
            told.append(log_dir.path.name)
            log_dirs.fail(log_dirs.all[1], "met while the first one was handled")
            raise RuntimeError("and the handler itself stumbles")

    log_dirs.add_failure_listener(Listener())
    log_dirs.fail(log_dirs.all[0], "first")

    assert told == ["d1", "d2"]
    assert [each.is_online for each in log_dirs.all] == [False, False, True]
    assert len(failed_ids(log_dirs)) == 2
