from __future__ import annotations

import errno
import os

import pytest

from jbodlab.storage.directory import disk_errors

OF_THE_DISK = "EIO EACCES EPERM EROFS ENOSPC ENOENT ENOTDIR EEXIST ENODEV EDQUOT ESTALE"
OF_THE_PROCESS = "EMFILE ENFILE ENOMEM EBADF"


@pytest.mark.parametrize("name", OF_THE_DISK.split())
def test_an_error_of_the_disk_takes_the_directory_offline(name: str) -> None:
    number = getattr(errno, name)
    assert disk_errors.is_directory_failure(OSError(number, os.strerror(number)))


@pytest.mark.parametrize("name", OF_THE_PROCESS.split())
def test_an_error_of_the_process_does_not_take_the_directory_offline(name: str) -> None:
    number = getattr(errno, name)
    assert not disk_errors.is_directory_failure(OSError(number, os.strerror(number)))


def test_an_error_is_described_with_number_text_and_file() -> None:
    error = OSError(errno.EIO, "Input/output error", "/d1/f")

    assert disk_errors.describe(error) == "[Errno 5] Input/output error: '/d1/f'"
    assert disk_errors.describe(OSError()) == "OSError"
