"""The disks of a cluster: a tmpfs mount each where the machine allows it, else plain folders.

A mount point can be neither renamed nor deleted, so the directory that a server is given lies
inside of its disk.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab.cluster.processes import ServerUser
from lab.interrupts import Interrupts

TIMEOUT_S = 30.0


def make(
    directories: Iterable[Path], user: ServerUser, size_mb: int, interrupts: Interrupts
) -> str:
    """Create directories, each on a disk of its own, owned by the servers' user.

    Args:
        directories: What servers are given; the parent of each becomes the disk.
        user: Owner of the directories.
        size_mb: Most that a disk holds; memory is taken only as it fills.
        interrupts: Held back around each mount.

    Returns:
        Why disks are plain folders; empty when they are mounts.
    """
    wanted = list(directories)
    note = _mount_all([path.parent for path in wanted], size_mb, interrupts)
    make_plain(wanted, user)
    return note


def make_plain(directories: Iterable[Path], user: ServerUser) -> None:
    """Create directories owned by the servers' user, on whatever disk they are."""
    for path in directories:
        path.mkdir(parents=True)
        if user.is_other:
            os.chown(path, user.uid, user.gid)


def mounts_below(root: Path) -> list[Path]:
    """Return the mount points in a folder and below, the deepest first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        path = Path(_unescape(line.split(" ")[4]))
        if path == root or root in path.parents:
            found.append(path)
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def unmount_below(root: Path) -> list[Path]:
    """Unmount everything in a folder; returns what could not be."""
    for path in mounts_below(root):
        if _run(["umount", str(path)]):
            # Somebody still has a file open: take it from the tree, it ends with its last user.
            _run(["umount", "--lazy", str(path)])
    return mounts_below(root)


def _mount_all(disks: list[Path], size_mb: int, interrupts: Interrupts) -> str:
    if os.geteuid() != 0:
        return "only root may mount"
    for number, disk in enumerate(disks):
        disk.mkdir(parents=True)
        with interrupts.deferred():
            error = _run(
                ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=0755", "jbodlab", str(disk)]
            )
        if error:
            for mounted in disks[:number]:
                _run(["umount", str(mounted)])
            return f"mounting failed: {error}"
    return ""


def _run(command: list[str]) -> str:
    """Run a command; returns what it complained about, empty when it worked."""
    # In a session of its own: a Ctrl-C must not stop a mount half way.
    with contextlib.suppress(subprocess.TimeoutExpired):
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
                start_new_session=True,
            )
        except OSError as error:
            return str(error)
        lines = done.stderr.strip().splitlines()
        return "" if done.returncode == 0 else (lines[-1] if lines else f"exit {done.returncode}")
    return f"{command[0]} did not answer within {TIMEOUT_S:.0f} s"


def _unescape(text: str) -> str:
    """Undo the octal escapes of blanks and backslashes in mountinfo."""
    return text.encode("latin-1", "replace").decode("unicode_escape") if "\\" in text else text
