"""Makes file system calls when told to; a process of its own, so that they can be broken.

Reads lines `{"id": 1, "call": "fsync", "directory": "/d1"}` and answers, each call on a thread of
its own since some will hang, `{"id": 1, "errno": 5, "begun_ns": ..., "ended_ns": ...}` (0: it went
well; monotonic clock). The call `prepare` makes the directory; what has to lie outside of it is in
the current folder.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

SPARES = 16
LIBC = ctypes.CDLL(None, use_errno=True)


class Directory:
    """Files in one directory before anything is broken."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
        os.mkdir(path)
        self.handle = os.open(f"{path}/handle.log", os.O_RDWR | os.O_CREAT, 0o644)
        os.write(self.handle, bytes(8192))
        self.index = os.open(f"{path}/handle.index", os.O_RDWR | os.O_CREAT, 0o644)
        self.unlinked = os.open(f"{path}/unlinked.log", os.O_RDWR | os.O_CREAT, 0o644)
        os.unlink(f"{path}/unlinked.log")
        self.folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        os.mkfifo(f"{path}/fifo")
        self.fifo = os.open(f"{path}/fifo", os.O_RDWR)
        for number in range(SPARES):
            os.close(os.open(f"{path}/spare-{number}", os.O_CREAT | os.O_WRONLY, 0o644))
            os.mkdir(f"{path}/empty-{number}")
        os.mkdir(f"{path}/folder-0")
        self.link = f"{path.rsplit('/', 1)[-1]}-link"
        os.symlink(path, self.link)
        self.outside = os.open(f"{self.link}-outside", os.O_RDWR | os.O_CREAT, 0o644)
        os.write(self.outside, bytes(8192))

    def spare(self, kind: str = "spare") -> str:
        return f"{kind}-{next(self.numbers[kind])}"

    def new(self) -> str:
        return f"{self.path}/{self.spare('new')}"


def opened(path: str, flags: int, **options: int) -> None:
    os.close(os.open(path, flags, 0o644, **options))


def sync_file_range(fd: int) -> None:
    if LIBC.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(4096), 7) != 0:
        raise OSError(ctypes.get_errno(), "sync_file_range")


def write_after_dup2(former: int, fd: int) -> None:
    """Write to a number that was another file's before."""
    number = os.dup(former)
    try:
        os.dup2(fd, number)
        os.pwrite(number, b"x", 0)
    finally:
        os.close(number)


NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY
CALLS: dict[str, Callable[[Directory], object]] = {
    "create": lambda d: opened(d.new(), NEW),
    "create_at": lambda d: opened(d.spare("new"), NEW, dir_fd=d.folder),
    "create_relative": lambda d: opened(f"{d.link}/{d.spare('new')}", NEW),
    "mkdir": lambda d: os.mkdir(d.new()),
    "mkdir_at": lambda d: os.mkdir(d.spare("new") + "/", dir_fd=d.folder),
    "symlink": lambda d: os.symlink("/nowhere", d.new()),
    "link": lambda d: os.link(f"{d.path}/handle.log", d.new()),
    "open": lambda d: opened(f"{d.path}/handle.log", os.O_RDONLY),
    "open_at": lambda d: opened("handle.log", os.O_RDONLY, dir_fd=d.folder),
    "open_relative": lambda d: opened(f"{d.link}/folder-0/../handle.log", os.O_RDONLY),
    "open_or_create": lambda d: opened(f"{d.path}/handle.log", os.O_CREAT | os.O_RDWR),
    "open_folder": lambda d: opened(d.path, os.O_RDONLY | os.O_DIRECTORY),
    "open_truncating": lambda d: opened(f"{d.path}/handle.index", os.O_TRUNC | os.O_WRONLY),
    "read": lambda d: os.read(d.handle, 1),
    "readv": lambda d: os.readv(d.handle, [bytearray(1)]),
    "pread": lambda d: os.pread(d.handle, 1, 0),
    "preadv": lambda d: os.preadv(d.handle, [bytearray(1)], 0),
    "preadv2": lambda d: os.preadv(d.handle, [bytearray(1)], 0, os.RWF_HIPRI),
    "sendfile_from": lambda d: os.sendfile(d.outside, d.handle, 0, 10),
    "copy_from": lambda d: os.copy_file_range(d.handle, d.outside, 10, 0, 0),
    "write": lambda d: os.write(d.index, b"x"),
    "writev": lambda d: os.writev(d.index, [b"x"]),
    "pwrite": lambda d: os.pwrite(d.handle, b"x", 0),
    "pwritev": lambda d: os.pwritev(d.handle, [b"x"], 0),
    "pwritev2": lambda d: os.pwritev(d.handle, [b"x"], 0, os.RWF_DSYNC),
    "pwrite_unlinked": lambda d: os.pwrite(d.unlinked, b"x", 0),
    "pwrite_dup2": lambda d: write_after_dup2(d.outside, d.handle),
    "pwrite_dup2_outside": lambda d: write_after_dup2(d.handle, d.outside),
    "pwrite_index": lambda d: os.pwrite(d.index, b"x", 0),
    "fallocate": lambda d: os.posix_fallocate(d.handle, 0, 4096),
    "sendfile_to": lambda d: os.sendfile(d.index, d.outside, 0, 10),
    "copy_to": lambda d: os.copy_file_range(d.outside, d.index, 10, 0, 0),
    "write_fifo": lambda d: os.write(d.fifo, b"x"),
    "fsync": lambda d: os.fsync(d.handle),
    "fsync_index": lambda d: os.fsync(d.index),
    "fsync_unlinked": lambda d: os.fsync(d.unlinked),
    "fdatasync": lambda d: os.fdatasync(d.handle),
    "fsync_folder": lambda d: os.fsync(d.folder),
    "sync_file_range": lambda d: sync_file_range(d.handle),
    "ftruncate": lambda d: os.ftruncate(d.handle, 8192),
    "truncate": lambda d: os.truncate(f"{d.path}/handle.log", 8192),
    "rename": lambda d: os.rename(f"{d.path}/{d.spare()}", d.new()),
    "replace": lambda d: os.replace(f"{d.path}/{d.spare()}", d.new()),
    "rename_at": lambda d: os.rename(
        d.spare(), d.spare("new"), src_dir_fd=d.folder, dst_dir_fd=d.folder
    ),
    "rename_out": lambda d: os.rename(f"{d.path}/{d.spare()}", f"{d.link}-{d.spare('out')}"),
    "unlink": lambda d: os.unlink(f"{d.path}/{d.spare()}"),
    "unlink_at": lambda d: os.unlink(d.spare(), dir_fd=d.folder),
    "rmdir": lambda d: os.rmdir(f"{d.path}/{d.spare('empty')}"),
    "listdir": lambda d: os.listdir(d.path),
    "listdir_handle": lambda d: os.listdir(d.folder),
    "scandir": lambda d: list(os.scandir(d.path)),
    "stat": lambda d: os.stat(f"{d.path}/handle.log"),
    "stat_at": lambda d: os.stat("handle.log", dir_fd=d.folder),
    "lstat": lambda d: os.lstat(f"{d.path}/handle.log"),
    "fstat": lambda d: os.fstat(d.handle),
    "statvfs": lambda d: os.statvfs(d.path),
    "fstatvfs": lambda d: os.fstatvfs(d.handle),
    "access": lambda d: os.access(d.path, os.R_OK) or fail(),
}


def fail() -> None:
    """`os.access` keeps the reason to itself."""
    raise OSError(errno.EIO, "access")


def main() -> None:
    directories: dict[str, Directory] = {}
    for line in sys.stdin:
        order = json.loads(line)
        path = order["directory"]
        if order["call"] == "prepare":
            directories[path] = Directory(path)
            answer(order, 0, 0)
        elif order["call"] == "hammer":
            threading.Thread(target=hammer, args=(order, directories)).start()
        else:
            act = CALLS[order["call"]]
            threading.Thread(target=make, args=(order, act, directories[path])).start()


def make(order: dict[str, Any], act: Callable[[Directory], object], d: Directory) -> None:
    begun_ns = time.monotonic_ns()
    number = 0
    try:
        act(d)
    except OSError as error:
        number = error.errno or -1
    answer(order, number, begun_ns)


def hammer(order: dict[str, Any], directories: dict[str, Directory]) -> None:
    """Sixteen threads make calls in some directories for a number of rounds, and tell what came."""
    rounds, chosen = range(order["rounds"]), order["directories"]
    found: dict[str, set[int]] = {path: set() for path in chosen}

    def work() -> None:
        for _, path in itertools.product(rounds, chosen):
            try:
                os.pwrite(directories[path].handle, b"x", 0)
                os.stat(path + "/handle.log")
                found[path].add(0)
            except OSError as error:
                found[path].add(error.errno or -1)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer(order, 0, 0, found={path: sorted(errors) for path, errors in found.items()})


def answer(order: dict[str, Any], number: int, begun_ns: int, **more: object) -> None:
    ended_ns = time.monotonic_ns()
    line = {"id": order["id"], "errno": number, "begun_ns": begun_ns, "ended_ns": ended_ns, **more}
    os.write(1, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    main()
