from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.disk.directory.lifecycle import LogDirEvent
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.slowness import TimedWork
from broker.disk.upkeep.probe import PROBE_FILE, LogDirProbe, probe
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from tests.broker.disks import (
    DeadDisk,
    FaultPlan,
    bring_back,
    directory_id,
    eventually,
    make_log_dir,
    make_log_dirs,
)
from tests.waiting import pass_by, quiet, set_forward, turns

REPOSITORY = Path(__file__).parents[3]
UNPRIVILEGED = ["setpriv", "--reuid=1500", "--regid=1500", "--clear-groups"]


def delete(path: Path) -> None:
    # A probe that is under way would put its file into a folder that is being emptied.
    shutil.rmtree(path.rename(path.with_name("moved-aside")))


def replace_by_a_file(path: Path) -> None:
    delete(path)
    path.write_bytes(b"")


def replace_by_another_directory(path: Path) -> None:
    path.rename(path.with_name("moved-aside"))
    path.mkdir()


@pytest.mark.parametrize("fault", [delete, replace_by_a_file, replace_by_another_directory])
async def test_a_dead_directory_is_found_although_nobody_writes_to_it(
    tmp_path: Path, fault: Callable[[Path], None]
) -> None:
    log_dirs = make_log_dirs(tmp_path)
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=5_000)
    watcher.start()
    await quiet(log_dirs.all)
    assert len(log_dirs.online()) == 3

    fault(tmp_path / "d2")

    await eventually(lambda: len(log_dirs.online()) == 2)
    assert not log_dirs.all[1].is_online
    await watcher.stop()


@pytest.mark.process
@pytest.mark.parametrize("mode", ["000", "555"])
def test_a_directory_without_permission_is_found_by_an_ordinary_user(
    tmp_path: Path, mode: str
) -> None:
    directory = tmp_path / "d1"
    directory.mkdir()
    as_user: list[str] = []
    if os.getuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is needed to drop root's privileges")
        for path in (directory, *tmp_path.parents, tmp_path):
            if not path.stat().st_mode & 0o001 and path.is_relative_to("/tmp"):
                path.chmod(path.stat().st_mode | 0o011)
        os.chown(directory, 1500, 1500)
        as_user = UNPRIVILEGED
    script = (
        "import sys; from pathlib import Path\n"
        "from broker.disk.upkeep.probe import probe\n"
        "from jbodlab.storage.directory.posix_filesystem import PosixFileSystem\n"
        "path = Path(sys.argv[1]); fs = PosixFileSystem(); identity = fs.identity(path)\n"
        "probe(fs, path, identity)\n"
        "path.chmod(int(sys.argv[2], 8))\n"
        "try: probe(fs, path, identity)\n"
        "except PermissionError: print('found')\n"
        "finally: path.chmod(0o755)\n"
    )
    copy = tmp_path / "code"
    for package in ("broker", "jbodlab"):
        shutil.copytree(REPOSITORY / package, copy / package)

    done = subprocess.run(
        [*as_user, sys.executable, "-c", script, str(directory), mode],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )

    if as_user and "Permission denied" in done.stderr and "encodings" in done.stderr:
        pytest.skip("the interpreter cannot be read by another user")
    assert done.stdout == "found\n", done.stderr


async def test_an_io_error_of_the_probe_takes_the_directory_offline(tmp_path: Path) -> None:
    fs = DeadDisk()
    log_dirs = make_log_dirs(tmp_path, fs=fs)
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=5_000)
    watcher.start()

    fs.error = errno.EIO

    await eventually(lambda: not log_dirs.all[0].is_online)
    assert "Input/output error" in (log_dirs.all[0].cause or "")
    assert len(log_dirs.online()) == 2
    await watcher.stop()


async def test_too_many_open_files_is_not_the_disks_fault(tmp_path: Path) -> None:
    calls: list[Path] = []

    def refuse(path: Path) -> None:
        calls.append(path)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    log_dirs = make_log_dirs(tmp_path, fs=FaultPlan({"write_bytes": refuse}))
    watcher = LogDirProbe(log_dirs, interval_ms=5, deadline_ms=5_000)
    watcher.start()

    await eventually(lambda: len(calls) >= 9)

    assert len(log_dirs.online()) == 3
    await watcher.stop()


async def test_a_hanging_disk_is_found_within_the_deadline(tmp_path: Path) -> None:
    fs = DeadDisk()
    log_dirs = make_log_dirs(tmp_path, fs=fs)
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=100)
    watcher.start()
    await quiet(log_dirs.all)

    fs.resume = threading.Event()

    await eventually(lambda: not log_dirs.all[0].is_online)
    assert log_dirs.all[0].cause == "HUNG: no answer within 100 ms"
    assert await log_dirs.all[1].run(lambda: "unharmed") == "unharmed"
    fs.resume.set()
    await watcher.stop()


async def test_a_long_queue_that_moves_on_is_no_failure(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    watcher = LogDirProbe(log_dirs, interval_ms=60_000, deadline_ms=200)
    turn = threading.Semaphore(0)
    watcher.start()
    await eventually(lambda: log_dirs.all[0].io_samples.take()[TimedWork.PROBE])
    work = [log_dirs.all[0].run(turn.acquire) for _ in range(60)]

    for call in work:
        await pass_by(0.01)
        turn.release()
        await call

    assert log_dirs.all[0].is_online
    await watcher.stop()


async def test_work_of_any_length_is_no_failure_as_long_as_no_step_hangs(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    watcher = LogDirProbe(log_dirs, interval_ms=60_000, deadline_ms=1_000)
    watcher.start()
    # The probe of the beginning meets a real disk, which has its own idea of time.
    await eventually(lambda: log_dirs.all[0].io_samples.take()[TimedWork.PROBE])

    gate = threading.Event()
    work = log_dirs.all[0].run(lambda: gate.wait(10))
    await eventually(lambda: log_dirs.all[0].queues["serving"].running_call)
    await pass_by(5)
    gate.set()
    await work

    assert log_dirs.all[0].is_online
    await watcher.stop()


async def test_time_in_which_the_process_stood_still_is_not_held_against_the_disk(
    tmp_path: Path,
) -> None:
    disk = FaultPlan()
    log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
    watcher = LogDirProbe(log_dirs, interval_ms=10_000, deadline_ms=200)
    watcher.start()
    await quiet(log_dirs.all)
    gate = threading.Event()
    fs = log_dirs.all[0].fs
    disk.plan["is_dir"] = lambda _path: gate.wait(10)
    work = log_dirs.all[0].run(lambda: fs.is_dir(tmp_path))
    await eventually(log_dirs.all[0].running_steps)
    await turns()

    # As if the loop itself had been stopped for a while, as by SIGSTOP.
    set_forward(0.5)
    await turns()

    assert log_dirs.all[0].is_online
    gate.set()
    await work
    await watcher.stop()


async def test_loading_logs_may_take_as_long_as_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "d1"
    path.mkdir()
    loading = LogDir(path, directory_id(1), identity=PosixFileSystem().identity(path))
    loading.handle(LogDirEvent.LOAD)
    log_dirs = LogDirs(
        [loading],
        metadata_dir=make_log_dir(tmp_path / "metadata", 9),
        on_fatal=lambda _: None,
    )
    watcher = LogDirProbe(log_dirs, interval_ms=60_000, deadline_ms=50)
    watcher.start()
    # The probe of the metadata directory meets a real disk, which has its own idea of time.
    await eventually(lambda: log_dirs.metadata_dir.io_samples.take()[TimedWork.PROBE])

    gate = threading.Event()
    work = loading.run(lambda: gate.wait(10))
    await eventually(lambda: loading.queues["serving"].running_call)
    await pass_by(1)
    gate.set()
    await work

    assert loading.is_online
    await watcher.stop()


async def test_a_separate_metadata_directory_is_probed_as_well(tmp_path: Path) -> None:
    reasons: list[str] = []
    log_dirs = make_log_dirs(tmp_path, on_fatal=reasons.append)
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=5_000)
    watcher.start()

    shutil.rmtree(tmp_path / "metadata")

    await eventually(lambda: reasons)
    assert "metadata log directory" in reasons[0]
    await watcher.stop()


def test_a_probe_leaves_nothing_behind_and_removes_what_a_killed_process_left(
    tmp_path: Path,
) -> None:
    (tmp_path / PROBE_FILE).write_bytes(b"left behind")

    probe(PosixFileSystem(), tmp_path, PosixFileSystem().identity(tmp_path))

    assert list(tmp_path.iterdir()) == []


async def test_a_revived_directory_is_probed_like_any_other(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path)
    watcher = LogDirProbe(log_dirs, interval_ms=10, deadline_ms=5_000)
    log_dirs.add_return_listener(watcher)
    watcher.start()
    log_dirs.fail(log_dirs.all[1], "gone")
    life = bring_back(log_dirs, log_dirs.all[1])
    await quiet(log_dirs.all)
    assert life.is_online

    delete(tmp_path / "d2")

    await eventually(lambda: not life.is_online)
    await watcher.stop()
    # Nobody probes once that is over.
    log_dirs.fail(log_dirs.all[0], "gone")
    bring_back(log_dirs, log_dirs.all[0])
