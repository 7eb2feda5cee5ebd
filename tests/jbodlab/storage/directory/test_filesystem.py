from __future__ import annotations

import errno
import os

import pytest

from jbodlab.storage.directory import disk_errors
from jbodlab.storage.directory.posix_filesystem import BUFFERS_PER_WRITE_MAX, PosixFileSystem

FS = PosixFileSystem()


def test_appends_go_to_the_end_also_after_a_truncation(tmp_path):
    file = FS.open_append(tmp_path / "f")

    assert file.write(b"abc") == 3
    assert file.writev([b"de", memoryview(b"fgh"), b""]) == 5
    file.truncate(4)
    file.write(b"X")
    file.fsync()

    assert file.size() == 5
    assert file.pread(10, 1) == b"bcdX"
    assert file.pread(10, 5) == b""
    file.close()
    file.close()


def test_an_append_of_very_many_buffers_is_whole(tmp_path):
    file = FS.open_append(tmp_path / "f")
    buffers = [bytes([number % 251]) for number in range(2 * BUFFERS_PER_WRITE_MAX + 3)]

    assert file.writev(buffers) == len(buffers)

    assert FS.read_bytes(tmp_path / "f") == b"".join(buffers)
    file.close()


def test_a_short_write_is_completed(tmp_path, monkeypatch):
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, buffers: real(fd, [b"".join(buffers)[:3]]))
    file = FS.open_append(tmp_path / "f")

    assert file.writev([b"ab", b"cdef", b"g"]) == 7

    assert FS.read_bytes(tmp_path / "f") == b"abcdefg"
    file.close()


def test_atomic_write_replaces_and_leaves_no_temporary_file(tmp_path):
    FS.write_atomically(tmp_path / "f", b"old")
    FS.write_atomically(tmp_path / "f", b"new")

    assert FS.read_bytes(tmp_path / "f") == b"new"
    assert FS.listdir(tmp_path) == ["f"]


def test_temporary_file_is_removed_when_the_rename_fails(tmp_path):
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "inside").touch()

    with pytest.raises(OSError, match="directory"):
        FS.write_atomically(tmp_path / "f", b"data")

    assert FS.listdir(tmp_path) == ["f"]


def test_exists_tells_missing_from_unreachable(tmp_path):
    (tmp_path / "f").touch()

    assert FS.exists(tmp_path / "f")
    assert not FS.exists(tmp_path / "g")
    assert not FS.is_dir(tmp_path / "f")
    assert FS.is_dir(tmp_path)
    with pytest.raises(NotADirectoryError):
        FS.exists(tmp_path / "f" / "below")


def test_disk_usage_counts_total_and_usable_bytes(tmp_path):
    total, usable = FS.disk_usage(tmp_path)

    assert total >= usable >= 0
    assert total > 0


@pytest.mark.parametrize(
    "number",
    [
        errno.EIO,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOSPC,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EEXIST,
        errno.ENODEV,
        errno.EDQUOT,
        errno.ESTALE,
    ],
)
def test_an_error_of_the_disk_takes_the_directory_offline(number):
    assert disk_errors.is_directory_failure(OSError(number, os.strerror(number)))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EBADF])
def test_an_error_of_the_process_does_not_take_the_directory_offline(number):
    assert not disk_errors.is_directory_failure(OSError(number, os.strerror(number)))


def test_an_error_is_described_with_number_text_and_file():
    error = OSError(errno.EIO, "Input/output error", "/d1/f")

    assert disk_errors.describe(error) == "[Errno 5] Input/output error: '/d1/f'"
    assert disk_errors.describe(OSError()) == "OSError"
