"""The disks of a cluster: a mount each where the machine allows it, else plain folders.

A mount point can be neither renamed nor deleted, so the directory that a server is given lies
inside of its disk.

A disk of kind fuse has the space of the folder that it lies over, and no end of its own. It is made
for the directories of brokers alone: each takes a process, and nothing breaks the others.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from fault_injection.errors import FaultError
from fault_injection.fuse import disk as fuse_disk
from fault_injection.fuse import machine as fuse_machine
from fault_injection.mounts import all_mounts, error_of
from lab.machine import programs
from lab.machine.disk_kinds import FUSE, SIZED, TMPFS
from lab.machine.interrupts import Interrupts
from lab.machine.processes import ServerUser

RULES_SUFFIX = ".rules"
"""End of the name of the file that a disk of kind fuse follows, beside the disk."""

Serve = Callable[[Sequence[str], Path], "subprocess.Popen[bytes]"]
"""Starts the process of a disk, given its command and the file for its output."""


def refusal(kind: str) -> str:
    """Return why disks of a kind cannot be made here; empty if they probably can."""
    if kind == FUSE:
        return fuse_machine.refusal()
    return "only root may mount" if kind in SIZED and os.geteuid() != 0 else ""


def make(
    directories: Iterable[Path],
    user: ServerUser,
    size_mb: int,
    interrupts: Interrupts,
    kind: str = TMPFS,
) -> str:
    """Create directories, each on a disk of its own, owned by the servers' user.

    Args:
        directories: Directories that servers are given; the parent of each becomes the disk.
        user: Owner of the directories.
        size_mb: Most that a disk holds; memory or space is taken only as it fills.
        interrupts: Held back around each mount.
        kind: `tmpfs`, or `loop` for ext4 in an image beside the disk.

    Returns:
        Why disks are plain folders; empty when they are mounts.
    """
    wanted = list(directories)
    note = _mount_all([path.parent for path in wanted], size_mb, interrupts, kind)
    make_plain(wanted, user)
    return note


def make_served(
    directories: Sequence[Path],
    user: ServerUser,
    interrupts: Interrupts,
    serve: Serve,
    logs: Path,
) -> str:
    """Create directories, each on a disk of kind fuse; otherwise as `make`.

    Args:
        directories: Directories that servers are given; the parent of each becomes the disk.
        user: Owner of the directories.
        interrupts: Held back while processes are started that are not mounts yet.
        serve: Starts the process of a disk.
        logs: Folder for its output.

    Returns:
        Why that is impossible here; empty when the disks are there.
    """
    if reason := fuse_machine.refusal():
        return reason
    started = []
    with interrupts.deferred():
        for disk in (path.parent for path in directories):
            make_folder(disk)
            rules = disk.with_name(f"{disk.name}{RULES_SUFFIX}")
            command = fuse_disk.command(disk, rules, programs.python())
            output = logs / f"{disk.parent.name}-{disk.name}.log"
            started.append((serve(command, output), disk, output))
        for process, disk, output in started:
            try:
                fuse_disk.wait_mounted(disk, process, output)
            except FaultError as error:
                for one, _, _ in started:
                    one.terminate()
                return f"mounting failed: {error}"
    make_plain(directories, user)
    return ""


def make_plain(directories: Iterable[Path], user: ServerUser) -> None:
    """Create directories owned by the servers' user, on whatever disk they are."""
    for path in directories:
        make_folder(path)
        if user.is_other:
            os.chown(path, user.uid, user.gid)


def make_folder(path: Path) -> None:
    """Make a folder, and what is missing above it, for all to enter and one user to write to."""
    if not path.parent.exists():
        make_folder(path.parent)
    path.mkdir(exist_ok=True)
    # Whatever the umask is: servers run as another user, and others run programs here too.
    path.chmod(0o755)


def mounts_below(root: Path) -> list[Path]:
    """Return the mount points in a folder and below, the deepest first; each as often as it is."""
    found = [one.point for one in all_mounts() if root in (one.point, *one.point.parents)]
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def unmount_below(root: Path) -> list[Path]:
    """Unmount everything in a folder; returns what could not be."""
    for path in mounts_below(root):
        if (served := fuse_disk.of(path)) is not None:
            with suppress(FaultError):
                fuse_disk.unmount(served)
        elif error_of(["umount", str(path)]):
            # Somebody still has a file open: take it from the tree, it ends with its last user.
            error_of(["umount", "--lazy", str(path)])
    return mounts_below(root)


def _mount_all(disks: list[Path], size_mb: int, interrupts: Interrupts, kind: str) -> str:
    if reason := refusal(kind):
        return reason
    for number, disk in enumerate(disks):
        make_folder(disk)
        with interrupts.deferred():
            error = _mount_tmpfs(disk, size_mb) if kind == TMPFS else _mount_loop(disk, size_mb)
        if error:
            for mounted in disks[:number]:
                error_of(["umount", str(mounted)])
            return f"mounting failed: {error}"
    return ""


def _mount_tmpfs(disk: Path, size_mb: int) -> str:
    # A call, and no program for each: a cluster has a dozen disks, and its servers wait for them.
    options = f"size={size_mb}m,mode=0755".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"jbodlab", os.fsencode(disk), b"tmpfs", ctypes.c_ulong(0), options):
        return os.strerror(ctypes.get_errno())
    return ""


def _mount_loop(disk: Path, size_mb: int) -> str:
    image = disk.with_name(f"{disk.name}.img")
    image.touch(mode=0o600)
    os.truncate(image, size_mb << 20)
    # No block is kept for root: the disk is full for everybody at the same moment.
    error = error_of(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)])
    return error or error_of(["mount", "-o", "loop", str(image), str(disk)])
