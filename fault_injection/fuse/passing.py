"""The calls of a disk in user space: each is judged, then made on the folder that it lies over.

The serving process has had that folder open since before the mount, so
`/proc/self/fd/3/orders-0/x.log` is the file below it, and everybody else's
`/disks/1/orders-0/x.log` is the same one through it.

The attributes of a file are always told, to the injecting process as well: the kernel asks for it
before most other calls, and a dying disk has it in memory too.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any

from fault_injection.call_proof import PREFIX
from fault_injection.preload.judge import Judge
from fault_injection.preload.rules import CallClass

CALLS = CallClass.ALL & ~CallClass.STAT
"""The calls that can be broken."""
NAMES_KEPT_S = 3600.0
"""How long the kernel caches names; only the kernel changes them."""
_AUTO_INVALIDATE = 1 << 12
_NOW, _OMIT = (1 << 30) - 1, (1 << 30) - 2
"""The kernel's values for nanoseconds of a time that is now, or stays."""
_NOT_FOR_US = os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_DIRECT | os.O_NOCTTY
"""Flags that the kernel heeds itself; writes come with their offset."""
_ATTRIBUTES = (
    "st_mode",
    "st_ino",
    "st_nlink",
    "st_uid",
    "st_gid",
    "st_rdev",
    "st_size",
    "st_blksize",
    "st_blocks",
)
_SPACE = (
    "f_bsize",
    "f_frsize",
    "f_blocks",
    "f_bfree",
    "f_bavail",
    "f_files",
    "f_ffree",
    "f_favail",
    "f_namemax",
)


class PassingDisk:
    """The operations of libfuse, by the names and arguments that mfusepy has for them.

    Args:
        folder: Folder that the disk lies over, by a name that does not lead through the disk.
        point: Where the disk is mounted, as the kernel names it.
        judge: Decides on each call.
        proofs: Decides on calls on files that proofs make, so that the others' counters tell
            of others alone.
        caller: Returns user, group and process of who makes the call that this thread serves.
    """

    use_ns = True

    def __init__(
        self,
        folder: str,
        point: str,
        *,
        judge: Judge,
        proofs: Judge,
        caller: Callable[[], tuple[int, int, int]],
    ) -> None:
        self._folder = folder
        self._point = point
        self._judge = judge
        self._proofs = proofs
        self._caller = caller
        self._judged_at: dict[int, int] = {}
        """By handles of directories: the rules that their opening was judged by."""

    def init_with_config(self, connection: Any, config: Any) -> None:
        """Tell the kernel what it may cache."""
        # Appending changes the time of a file, for which its pages would be read again.
        connection.want &= ~_AUTO_INVALIDATE
        config.entry_timeout = NAMES_KEPT_S
        # Brokers compare identities of files, which are those of the folder.
        config.use_ino = 1
        # Files that are open are removed all the same; hidden ones would keep their folder there.
        config.hard_remove = 1

    # Names

    def create(self, path: str, mode: int, flags: int) -> int:
        """Make a file and open it."""
        self._meet(CallClass.CREATE, path)
        fd = os.open(self._below(path), flags & ~_NOT_FOR_US | os.O_CREAT | os.O_CLOEXEC, mode)
        self._give_to_caller(fd)
        return fd

    def mkdir(self, path: str, mode: int) -> None:
        """Make a directory."""
        self._meet(CallClass.CREATE, path)
        os.mkdir(self._below(path), mode)
        self._give_to_caller(self._below(path))

    def mknod(self, path: str, mode: int, device: int) -> None:
        """Make a pipe or the like."""
        self._meet(CallClass.CREATE, path)
        os.mknod(self._below(path), mode, device)
        self._give_to_caller(self._below(path))

    def symlink(self, path: str, text: str) -> None:
        """Make a symbolic link."""
        self._meet(CallClass.CREATE, path)
        os.symlink(text, self._below(path))
        self._give_to_caller(self._below(path))

    def link(self, path: str, known: str) -> None:
        """Give a file one more name."""
        self._meet(CallClass.CREATE, path)
        os.link(self._below(known), self._below(path))

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name; what has that name is replaced."""
        self._meet(CallClass.RENAME, old, new)
        os.rename(self._below(old), self._below(new))

    def unlink(self, path: str) -> None:
        """Remove a name of a file."""
        self._meet(CallClass.REMOVE, path)
        os.unlink(self._below(path))

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        self._meet(CallClass.REMOVE, path)
        os.rmdir(self._below(path))

    def readlink(self, path: str) -> str:
        """Return what a symbolic link says."""
        return os.readlink(self._below(path))

    # Attributes of files

    def getattr(self, path: str, fd: int | None = None) -> dict[str, int]:
        """Return what is known of a file, by its name or by a handle."""
        return _attributes(os.fstat(fd) if fd is not None else os.lstat(self._below(path)))

    def statfs(self, _path: str) -> dict[str, int]:
        """Return the space of the disk that the folder is on."""
        found = os.statvfs(self._folder)
        return {name: getattr(found, name) for name in _SPACE}

    def chmod(self, path: str, mode: int) -> None:
        """Change permissions."""
        os.chmod(self._below(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        """Change who a file belongs to."""
        os.chown(self._below(path), uid, gid, follow_symlinks=False)

    def utimens(self, path: str, times: tuple[int, int]) -> None:
        """Change the times of a file."""
        found = os.lstat(self._below(path))
        now_ns = time.time_ns()
        read_ns, written_ns = (
            now_ns if wanted == _NOW else known if wanted == _OMIT else wanted
            for wanted, known in zip(times, (found.st_atime_ns, found.st_mtime_ns), strict=True)
        )
        os.utime(self._below(path), ns=(read_ns, written_ns), follow_symlinks=False)

    # Files

    def open(self, path: str, flags: int) -> int:
        """Open a file that is there."""
        classes = CallClass.OPEN | (CallClass.TRUNCATE if flags & os.O_TRUNC else 0)
        self._meet(classes, path)
        return os.open(self._below(path), flags & ~_NOT_FOR_US | os.O_CLOEXEC)

    def read(self, path: str | None, size: int, offset: int, fd: int) -> bytes:
        """Read from a handle."""
        self._meet(CallClass.READ, path or self._name_of(fd))
        return os.pread(fd, size, offset)

    def write(self, path: str | None, data: bytes, offset: int, fd: int) -> int:
        """Write to a handle."""
        self._meet(CallClass.WRITE, path or self._name_of(fd))
        return os.pwrite(fd, data, offset)

    def fallocate(self, path: str | None, mode: int, offset: int, size: int, fd: int) -> None:
        """Take space for a file."""
        self._meet(CallClass.WRITE, path or self._name_of(fd))
        if mode:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        os.posix_fallocate(fd, offset, size)

    def truncate(self, path: str | None, length: int, fd: int | None = None) -> None:
        """Cut a file off, or let it grow, by its name or by a handle."""
        place = self._name_of(fd) if path is None and fd is not None else str(path)
        self._meet(CallClass.TRUNCATE, place)
        os.truncate(self._below(place) if fd is None else fd, length)

    def fsync(self, path: str | None, only_data: int, fd: int) -> None:
        """Bring a file to the disk."""
        self._meet(CallClass.SYNC, path or self._name_of(fd))
        (os.fdatasync if only_data else os.fsync)(fd)

    def release(self, _path: str | None, fd: int) -> None:
        """Close a handle that nobody has any more."""
        os.close(fd)

    # Directories

    def opendir(self, path: str) -> int:
        """Open a directory."""
        judged_at = self._judge.state
        self._meet(CallClass.LIST, path)
        fd = os.open(self._below(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._judged_at[fd] = judged_at
        return fd

    def readdir(self, path: str, fd: int) -> Iterator[tuple[str, dict[str, int], int]]:
        """List a directory; one that was opened before the rules changed is judged now."""
        if self._judged_at.get(fd) != self._judge.state:
            self._meet(CallClass.LIST, path)
        return _entries(fd)

    def fsyncdir(self, path: str | None, _only_data: int, fd: int) -> None:
        """Bring the names in a directory to the disk."""
        self._meet(CallClass.SYNC, path or self._name_of(fd))
        os.fsync(fd)

    def releasedir(self, _path: str | None, fd: int) -> None:
        """Close a directory."""
        self._judged_at.pop(fd, None)
        os.close(fd)

    def _meet(self, classes: CallClass, *paths: str) -> None:
        """Let a call wait as long as the rules say.

        Raises:
            OSError: it fails, as they say.
        """
        is_proof = any(path.rpartition("/")[2].startswith(PREFIX) for path in paths)
        judge = self._proofs if is_proof else self._judge
        if judge.is_armed:
            places = [(classes, f"{self._point}{path}".rstrip("/")) for path in paths]
            if code := judge.answer(places):
                raise OSError(code, os.strerror(code))

    def _give_to_caller(self, made: int | str) -> None:
        """Let what root has made belong to who asked for it."""
        if os.geteuid() == 0:
            uid, gid, _ = self._caller()
            os.chown(made, uid, gid, follow_symlinks=isinstance(made, int))

    def _below(self, path: str) -> str:
        return f"{self._folder}{path}"

    def _name_of(self, fd: int) -> str:
        """Return the name of a file, or the last one that it had."""
        name = os.readlink(f"/proc/self/fd/{fd}").removesuffix(" (deleted)")
        return name.removeprefix(self._point)


def _attributes(found: os.stat_result) -> dict[str, int]:
    known = {name: getattr(found, name) for name in _ATTRIBUTES}
    known |= {"st_atime": found.st_atime_ns, "st_mtime": found.st_mtime_ns}
    return {**known, "st_ctime": found.st_ctime_ns}


def _entries(fd: int) -> Iterator[tuple[str, dict[str, int], int]]:
    for name in (".", ".."):
        yield name, {"st_ino": os.fstat(fd).st_ino, "st_mode": stat.S_IFDIR}, 0
    with os.scandir(fd) as entries:
        for entry in entries:
            kind = stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else stat.S_IFREG
            if entry.is_symlink():
                kind = stat.S_IFLNK
            yield entry.name, {"st_ino": entry.inode(), "st_mode": kind}, 0
