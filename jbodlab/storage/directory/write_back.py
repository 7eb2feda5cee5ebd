"""Has the disk write a part of a file: what `fsync` does, without the file system's journal.

A journal that is written behind a gigabyte of data makes everybody wait who changes a file of that
disk meanwhile. Linux has `sync_file_range` for that, Python has not.
"""

from __future__ import annotations

import ctypes
import errno
import os

_UNABLE = (errno.ENOSYS, errno.EINVAL, errno.ESPIPE)
_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4


def write_back(fd: int, position: int, size: int) -> bool:
    """Return when a part of a file was written.

    Args:
        fd: Of the file.
        position: Where the part begins, bytes.
        size: Its bytes.

    Returns:
        Whether this system and file system can do it.

    Raises:
        OSError: the disk failed.
    """
    if _sync_file_range is None:
        return False
    flags = _WAIT_BEFORE | _WRITE | _WAIT_AFTER
    if _sync_file_range(fd, ctypes.c_int64(position), ctypes.c_int64(size), flags) == 0:
        return True
    error = ctypes.get_errno()
    if error in _UNABLE:
        return False
    raise OSError(error, os.strerror(error))


def _find() -> ctypes._NamedFuncPointer | None:
    try:
        return ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return None


_sync_file_range = _find()
