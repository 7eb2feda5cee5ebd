from __future__ import annotations

import threading
from pathlib import Path

import pytest

from broker.disk.calls.fence import LOOKS, Fence, fenced_disk
from jbodlab.storage.directory.directory_probe import probe
from jbodlab.storage.directory.filesystem import AppendFile, CopySource, CopyTarget, FileSystem
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import LogDirError
from tests.broker.disks import DeadDisk, FaultPlan, make_log_dirs


def fenced() -> tuple[FileSystem, Fence]:
    fence = Fence()
    return fenced_disk(PosixFileSystem(), fence), fence


def test_open_fence_changes_nothing(tmp_path: Path) -> None:
    disk, _ = fenced()
    disk.write_atomically(tmp_path / "a", b"content")
    file = disk.open_append(tmp_path / "b")
    file.writev([b"12", b"34"])
    file.write(b"5")
    file.truncate(4)
    file.fsync()

    assert disk.listdir(tmp_path) == ["a", "b"]
    assert disk.read_bytes(tmp_path / "a") == b"content"
    assert (file.pread(9, 1), file.size(), disk.size(tmp_path / "b")) == (b"234", 4, 4)
    file.close()


def test_behind_a_closed_fence_files_can_only_be_given_back(tmp_path: Path) -> None:
    disk, fence = fenced()
    kept = tmp_path / "kept"
    file = disk.open_append(kept)
    file.write(b"1234")
    fence.close()

    for step in (
        lambda: disk.open_append(tmp_path / "new"),
        lambda: disk.listdir(tmp_path),
        lambda: disk.exists(kept),
        lambda: disk.is_dir(kept),
        lambda: disk.size(kept),
        lambda: disk.mkdir(tmp_path / "folder"),
        lambda: disk.rename(kept, tmp_path / "new"),
        lambda: disk.unlink(kept),
        lambda: disk.read_bytes(kept),
        lambda: disk.write_bytes(kept, b"", sync=False),
        lambda: disk.write_atomically(kept, b""),
        lambda: disk.fsync_file(kept),
        lambda: disk.write_back(kept, 0, 1),
        lambda: disk.forget_cached(kept),
        lambda: disk.fsync_dir(tmp_path),
        lambda: disk.rmtree(tmp_path),
        lambda: disk.disk_usage(tmp_path),
        lambda: file.write(b"5"),
        lambda: file.writev([b"5"]),
        lambda: file.pread(1, 0),
        lambda: file.fsync(),
        lambda: file.truncate(0),
        lambda: file.size(),
    ):
        with pytest.raises(OSError, match="no longer uses"):
            step()
    file.close()

    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert kept.read_bytes() == b"1234"


async def test_thread_that_comes_back_late_goes_no_further(tmp_path: Path) -> None:
    """The call that hung is carried out, what was to follow it is not."""
    disk = DeadDisk()
    disk.resume = threading.Event()

    log_dirs = make_log_dirs(tmp_path, fs=disk)
    first = log_dirs.all[0]
    done = threading.Event()

    def work() -> None:
        try:
            first.fs.write_atomically(first.path / "checkpoint", b"old life")
        finally:
            done.set()

    call = first.run(work)
    while not first.is_being_written:
        threading.Event().wait(0.001)
    log_dirs.fail(first, "hung")
    assert isinstance(call.exception(), LogDirError)
    (first.path / "checkpoint").write_bytes(b"new life")
    disk.resume.set()
    assert done.wait(10)

    assert (first.path / "checkpoint").read_bytes() == b"new life"
    assert not first.is_being_written


def test_probe_counts_as_no_write(tmp_path: Path) -> None:
    fence = Fence()
    seen: list[bool] = []

    def watch(_path: Path) -> None:
        seen.append(fence.is_being_written)

    watching = FaultPlan(dict.fromkeys(("write_bytes", "fsync_file", "unlink"), watch))
    disk = fenced_disk(watching, fence)
    probe(disk, tmp_path, PosixFileSystem().identity(tmp_path))
    disk.write_bytes(tmp_path / "other", b"", sync=False)

    assert seen == [False, False, False, True]
    assert not fence.is_being_written


def test_every_method_of_a_disk_is_known_to_change_files_or_not_to() -> None:
    methods = {
        name
        for kind in (FileSystem, AppendFile, CopySource, CopyTarget)
        for name in dir(kind)
        if not name.startswith("_")
    }

    assert methods >= LOOKS
    assert methods - LOOKS == {
        *("open_append", "open_target", "mkdir", "rename", "unlink", "rmdir", "rmtree"),
        *("write_bytes", "write_atomically", "make_read_only"),
        *("write", "writev", "truncate", "copy_from", "close"),
    }
