"""One contract of the real file system and the simulated disks, and the rules of each alone."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jbodlab.storage.directory.posix_filesystem import BUFFERS_PER_WRITE_MAX, PosixFileSystem
from tests.simulation.disk import LOSSES, DiskView, Medium, SimDisk
from tests.simulation.loop import SimLoop, SimThreads

REAL = PosixFileSystem()


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop("1")
    yield loop
    loop.close()


@pytest.fixture(params=["posix", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path, loop: SimLoop) -> tuple[Any, Path]:
    if request.param == "posix":
        return PosixFileSystem(), tmp_path
    path = Path("/simulated/d1")
    return DiskView(SimDisk(loop, path, Medium(1, 1 << 40, is_ordered=True), "1")), path


def code_of(call: Callable[[], object]) -> int | None:
    with pytest.raises(OSError, match=r"\[Errno") as raised:
        call()
    return raised.value.errno


def test_appends_go_to_the_end_also_after_a_cut(place: tuple[Any, Path]) -> None:
    fs, root = place
    file = fs.open_append(root / "f")

    assert file.write(b"abc") == 3
    assert file.writev([b"de", memoryview(b"fgh"), b""]) == 5
    file.truncate(4)
    file.write(b"X")
    file.fsync()

    assert file.size() == 5
    assert file.pread(10, 1) == b"bcdX"
    assert file.pread(10, 5) == b""
    assert fs.open_append(root / "f").pread(10, 0) == b"abcdX"
    file.truncate(8)
    assert file.pread(10, 0) == b"abcdX\0\0\0"
    file.close()
    file.close()


def test_nobody_else_may_read_what_a_server_writes(tmp_path: Path) -> None:
    fs = PosixFileSystem()
    before = os.umask(0)
    try:
        fs.mkdir(tmp_path / "d")
        fs.open_append(tmp_path / "d" / "log").close()
        fs.write_bytes(tmp_path / "d" / "file", b"", sync=False)
        fs.write_atomically(tmp_path / "d" / "whole", b"")
        fs.write_atomically(tmp_path / "d" / "snapshot", b"")
        fs.make_read_only(tmp_path / "d" / "snapshot")
        fs.lock(tmp_path / "d" / ".lock").close()
    finally:
        os.umask(before)

    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "d").iterdir()}
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700
    assert modes.pop("snapshot") == 0o400
    assert modes == dict.fromkeys(("log", "file", "whole", ".lock"), 0o600)


def test_whole_files_are_written_read_and_replaced(place: tuple[Any, Path]) -> None:
    fs, root = place

    fs.write_bytes(root / "f", b"long old content", sync=True)
    fs.write_bytes(root / "f", b"new", sync=False)
    fs.write_atomically(root / "g", b"one")
    fs.write_atomically(root / "g", b"two", sync=False)
    fs.fsync_file(root / "f")
    fs.make_read_only(root / "g")

    assert fs.read_bytes(root / "f") == b"new"
    assert fs.read_bytes(root / "g") == b"two"
    assert fs.size(root / "f") == 3
    assert fs.listdir(root) == ["f", "g"]


def test_names_change(place: tuple[Any, Path]) -> None:
    fs, root = place
    fs.mkdir(root / "a" / "b", parents=True)
    fs.mkdir(root / "a", exist_ok=True)
    fs.write_bytes(root / "a" / "f", b"1", sync=False)
    fs.write_bytes(root / "a" / "g", b"2", sync=False)
    held = fs.open_append(root / "a" / "f")

    fs.rename(root / "a" / "f", root / "a" / "g")
    fs.rename(root / "a", root / "c")
    held.write(b"!")
    fs.unlink(root / "c" / "gone", missing_ok=True)

    assert fs.listdir(root) == ["c"]
    assert fs.listdir(root / "c") == ["b", "g"]
    assert fs.read_bytes(root / "c" / "g") == b"1!"
    assert fs.is_dir(root / "c")
    assert not fs.is_dir(root / "c" / "g")
    assert fs.exists(root / "c" / "g")
    assert not fs.exists(root / "a")
    fs.rmdir(root / "c" / "b")
    fs.rmtree(root / "c")
    assert fs.listdir(root) == []


def test_an_open_file_lives_on_without_its_name(place: tuple[Any, Path]) -> None:
    fs, root = place
    file = fs.open_append(root / "f")
    file.write(b"abc")

    fs.unlink(root / "f")
    file.write(b"d")

    assert file.pread(9, 0) == b"abcd"
    assert not fs.exists(root / "f")


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (lambda fs, root: fs.read_bytes(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.size(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.listdir(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.listdir(root / "file"), errno.ENOTDIR),
        (lambda fs, root: fs.read_bytes(root / "folder"), errno.EISDIR),
        (lambda fs, root: fs.read_bytes(root / "file" / "x"), errno.ENOTDIR),
        (lambda fs, root: fs.exists(root / "file" / "x"), errno.ENOTDIR),
        (lambda fs, root: fs.open_append(root / "folder"), errno.EISDIR),
        (lambda fs, root: fs.open_append(root / "none" / "f"), errno.ENOENT),
        (lambda fs, root: fs.open_source(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.mkdir(root / "folder"), errno.EEXIST),
        (lambda fs, root: fs.mkdir(root / "file", exist_ok=True), errno.EEXIST),
        (lambda fs, root: fs.mkdir(root / "none" / "x"), errno.ENOENT),
        (lambda fs, root: fs.unlink(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.unlink(root / "folder"), errno.EISDIR),
        (lambda fs, root: fs.rmdir(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.rmdir(root / "folder"), errno.ENOTEMPTY),
        (lambda fs, root: fs.rmtree(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.rename(root / "none", root / "x"), errno.ENOENT),
        (lambda fs, root: fs.rename(root / "file", root / "none" / "x"), errno.ENOENT),
        (lambda fs, root: fs.rename(root / "file", root / "folder"), errno.EISDIR),
        (lambda fs, root: fs.rename(root / "other", root / "file"), errno.ENOTDIR),
        (lambda fs, root: fs.rename(root / "other", root / "folder"), errno.ENOTEMPTY),
        (lambda fs, root: fs.fsync_file(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.fsync_dir(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.fsync_dir(root / "file"), errno.ENOTDIR),
        (lambda fs, root: fs.identity(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.identity(root / "file"), errno.ENOTDIR),
        (lambda fs, root: fs.hold(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.write_bytes(root / "folder", b"", sync=False), errno.EISDIR),
        (lambda fs, root: fs.write_back(root / "none", 0, 1), errno.ENOENT),
        (lambda fs, root: fs.forget_cached(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.make_read_only(root / "none"), errno.ENOENT),
        (lambda fs, root: fs.lock(root / "none" / "lock"), errno.ENOENT),
    ],
)
def test_what_cannot_be_done_fails_alike(
    place: tuple[Any, Path], what: Callable[[Any, Path], object], code: int
) -> None:
    fs, root = place
    fs.write_bytes(root / "file", b"content", sync=False)
    fs.mkdir(root / "folder")
    fs.mkdir(root / "other")
    fs.write_bytes(root / "folder" / "x", b"", sync=False)

    assert code_of(lambda: what(fs, root)) == code
    assert fs.listdir(root) == ["file", "folder", "other"]


def test_what_was_written_is_still_there_when_the_cache_is_forgotten(
    place: tuple[Any, Path],
) -> None:
    fs, root = place
    fs.write_bytes(root / "file", b"0123", sync=True)
    file = fs.open_append(root / "file")
    file.write(b"4567")

    fs.forget_cached(root / "file")

    assert fs.read_bytes(root / "file") == b"01234567"
    file.close()


def test_bytes_are_copied_to_where_they_were(place: tuple[Any, Path]) -> None:
    fs, root = place
    fs.write_bytes(root / "from", b"0123456789", sync=False)
    source, target = fs.open_source(root / "from"), fs.open_target(root / "to")

    copied = [target.copy_from(source, position, 4) for position in (4, 0, 8, 10)]
    target.fsync()

    assert copied == [4, 4, 2, 0]
    assert fs.read_bytes(root / "to") == b"0123456789"


def test_a_lock_follows_its_file_and_ends_when_closed(place: tuple[Any, Path]) -> None:
    fs, root = place
    lock = fs.lock(root / ".lock")

    assert lock.is_at_its_path()
    fs.unlink(root / ".lock")
    assert not lock.is_at_its_path()
    lock.close()
    lock.close()
    assert fs.lock(root / ".lock").is_at_its_path()


def test_a_directory_keeps_its_identity_and_another_has_none_of_it(place: tuple[Any, Path]) -> None:
    fs, root = place
    fs.mkdir(root / "a")
    fs.mkdir(root / "b")
    known = fs.identity(root / "a")

    fs.rename(root / "a", root / "c")

    assert fs.identity(root / "c") == known != fs.identity(root / "b")
    assert fs.canonical(root / "c") == root / "c"
    assert fs.is_usable(root / "c")
    assert not fs.is_usable(root / "a")


def test_usage_counts_total_and_usable_bytes(place: tuple[Any, Path]) -> None:
    fs, root = place

    total, usable = fs.disk_usage(root)

    assert total >= usable >= 0 < total


# Only the real one does this


def test_an_append_of_very_many_buffers_is_whole(tmp_path: Path) -> None:
    file = REAL.open_append(tmp_path / "f")
    buffers = [bytes([number % 251]) for number in range(2 * BUFFERS_PER_WRITE_MAX + 3)]

    assert file.writev(buffers) == len(buffers)

    assert REAL.read_bytes(tmp_path / "f") == b"".join(buffers)
    file.close()


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, buffers: real(fd, [b"".join(buffers)[:3]]))
    file = REAL.open_append(tmp_path / "f")

    assert file.writev([b"ab", b"cdef", b"g"]) == 7

    assert REAL.read_bytes(tmp_path / "f") == b"abcdefg"
    file.close()


def test_temporary_file_is_removed_when_the_rename_fails(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "inside").touch()

    with pytest.raises(OSError, match="directory"):
        REAL.write_atomically(tmp_path / "f", b"data")

    assert REAL.listdir(tmp_path) == ["f"]


# Only the simulated ones do this


def disk_of(loop: SimLoop, *, is_ordered: bool = True, capacity: int = 1 << 40) -> SimDisk:
    return SimDisk(loop, Path("/d"), Medium(1, capacity, is_ordered=is_ordered), "1")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_ordered", [True, False])
def test_what_was_synced_survives_a_loss_of_power(
    loop: SimLoop, loss: str, is_ordered: bool
) -> None:
    for seed in range(20):
        disk = disk_of(loop, is_ordered=is_ordered)
        disk.random = Random(seed)
        fs = DiskView(disk)
        fs.mkdir(Path("/d/a"))
        file = fs.open_append(Path("/d/a/f"))
        file.write(b"safe" * 200)
        file.fsync()
        fs.fsync_dir(Path("/d/a"))
        fs.fsync_dir(Path("/d"))
        file.write(b"risk" * 400)
        fs.rename(Path("/d/a"), Path("/d/b"), sync=False)

        disk.lose_power(loss)

        (name,) = fs.listdir(Path("/d"))
        found = fs.read_bytes(Path("/d") / name / "f")
        assert found[:800] == b"safe" * 200
        assert len(found) <= 2400
        if loss in ("none", "all"):
            assert (name, len(found)) == (("a", 800) if loss == "none" else ("b", 2400))


def test_a_name_that_was_not_synced_is_lost_on_a_loose_disk(loop: SimLoop) -> None:
    for is_ordered in (True, False):
        disk = disk_of(loop, is_ordered=is_ordered)
        fs = DiskView(disk)
        file = fs.open_append(Path("/d/f"))
        file.write(b"abc")
        file.fsync()

        disk.lose_power("none")

        assert fs.listdir(Path("/d")) == (["f"] if is_ordered else [])


def test_a_replaced_file_is_the_old_or_the_new_one(loop: SimLoop) -> None:
    for seed in range(50):
        disk = disk_of(loop, is_ordered=False)
        disk.random = Random(seed)
        fs = DiskView(disk)
        fs.write_atomically(Path("/d/f"), b"old")
        fs.write_bytes(Path("/d/f.tmp"), b"new", sync=True)
        fs.rename(Path("/d/f.tmp"), Path("/d/f"), sync=False)

        disk.lose_power("any")

        assert fs.read_bytes(Path("/d/f")) in (b"old", b"new")


def test_what_a_failed_sync_was_to_save_is_never_saved(loop: SimLoop) -> None:
    disk = disk_of(loop)
    fs = DiskView(disk)
    file = fs.open_append(Path("/d/f"))
    fs.fsync_dir(Path("/d"))
    file.write(b"abc")
    disk.fail_next["sync"] = errno.EIO

    assert code_of(file.fsync) == errno.EIO
    file.fsync()

    assert file.pread(9, 0) == b"abc"
    disk.lose_power("all")
    assert fs.read_bytes(Path("/d/f")) == b""


def test_a_full_disk_takes_what_fits_and_more_when_something_is_removed(loop: SimLoop) -> None:
    disk = disk_of(loop, capacity=10)
    fs = DiskView(disk)
    fs.write_bytes(Path("/d/f"), b"123456", sync=False)
    file = fs.open_append(Path("/d/g"))

    assert code_of(lambda: file.write(b"abcdef")) == errno.ENOSPC
    assert file.size() == 4
    assert fs.disk_usage(Path("/d")) == (10, 0)
    fs.unlink(Path("/d/f"))
    assert file.write(b"xyz") == 3


def test_a_hanging_call_takes_effect_before_or_after(loop: SimLoop) -> None:
    for after in (False, True):
        disk = disk_of(loop)
        fs = DiskView(disk)
        file = fs.open_append(Path("/d/f"))
        disk.hang(("write",), is_after=after)
        done: list[str] = []

        def work(file: Any = file, done: list[str] = done) -> None:
            file.write(b"abc")
            done.append("written")

        async def history(
            disk: SimDisk = disk, file: Any = file, done: list[str] = done, after: bool = after
        ) -> None:
            SimThreads(loop).start(lambda: work(file, done), "writer")
            await pause_s(loop, 1.0)
            assert (file.size(), done) == (3 if after else 0, [])
            disk.heal()
            await pause_s(loop, 1.0)
            assert (file.size(), done) == (3, ["written"])

        loop.run_until_complete(history())


async def pause_s(loop: SimLoop, seconds: float) -> None:
    waited = loop.create_future()
    loop.call_later(seconds, waited.set_result, None)
    await waited


def test_errors_are_those_of_the_operating_system(loop: SimLoop) -> None:
    disk = disk_of(loop)
    disk.break_(errno.EROFS, ("write",))
    fs = DiskView(disk)

    with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
        fs.open_append(Path("/d/f")).write(b"x")
    disk.heal()
    assert fs.open_append(Path("/d/f")).write(b"x") == 1
