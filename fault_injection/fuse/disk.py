"""Disks in user space seen from outside: mounted, unmounted, and what dead ones leave.

The table of mounts is all that is kept of them: a disk of ours is known by its type there, and the
file with its rules is what is mounted. So every command finds them, and those whose process was
killed too: whoever touches such a disk is told that nobody is connected.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from fault_injection import mounts
from fault_injection.errors import FaultError
from fault_injection.mounts import Mount
from fault_injection.preload.control import Control
from jbodlab.cli.program_names import name_of

SUBTYPE = "jbodlab"
KIND = f"fuse.{SUBTYPE}"
"""Its type in the table of mounts."""

MOUNT_DEADLINE_S = 20.0
_POLL_S = 0.01
_NOBODY_CONNECTED = (errno.ENOTCONN, errno.ECONNABORTED)


def command(point: Path, rules: Path, python: str = sys.executable) -> list[str]:
    """Return the command of the process that serves a disk.

    Args:
        point: The folder that it lies over; what is in the folder is what is on the disk.
        rules: The file of rules, made by that process and removed at its end.
        python: The interpreter.
    """
    return [python, "-m", name_of("fault_injection.fuse"), str(point), str(rules)]


def wait_mounted(point: Path, process: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until a disk is mounted whose process was started.

    Args:
        point: Where.
        process: That process.
        output: The file that it prints to.

    Raises:
        FaultError: its process has ended, with what it said last, or takes too long.
    """
    end = time.monotonic() + MOUNT_DEADLINE_S
    while of(point) is None:
        if process.poll() is not None:
            lines = output.read_text("utf-8", "replace").strip().splitlines()
            raise FaultError(lines[-1] if lines else f"no process serves {point}")
        if time.monotonic() > end:
            raise FaultError(f"{point} is not mounted after {MOUNT_DEADLINE_S:.0f} s")
        time.sleep(_POLL_S)


def of(point: Path) -> Mount | None:
    """Return the disk of ours that is mounted at a place, and seen there."""
    found = [mount for mount in mounts.all_mounts() if mount.point == point]
    return found[-1] if found and found[-1].kind == KIND else None


def lets_through(directory: Path) -> bool:
    """Return whether whoever looks into a directory comes back: no disk of ours breaks calls there.

    A call that hangs holds the directory in the kernel, against all who come after it.
    """
    found = mounts.own_disk(directory)
    if found is None or found.kind != KIND:
        return True
    try:
        in_force = Control.open(rules_of(found)).in_force
    except FaultError:
        return False
    broken = {armed.rule.directory for armed in in_force}
    return not broken & {directory, *directory.parents}


def rules_of(disk: Mount) -> Path:
    """Return the file of rules that a disk follows."""
    return Path(disk.source)


def proofs_of(rules: Path) -> Path:
    """Return the file of the rules for calls on files that proofs make."""
    return rules.with_name(f"{rules.name}-of-proofs")


def remove_rules(rules: Path) -> None:
    """Remove the files of rules of a disk that is no more."""
    for file in (rules, proofs_of(rules)):
        file.unlink(missing_ok=True)


def unmount(disk: Mount) -> None:
    """Take a disk away; what hangs is answered first.

    Where somebody still has a file of it, it is taken from the tree and ends with its last user.

    Raises:
        FaultError: that failed.
    """
    rules, was_dead = rules_of(disk), is_dead(disk)
    for file in (rules, proofs_of(rules)):
        with suppress(FaultError):
            Control.open(file).clear()
    if os.geteuid() != 0 or mounts.error_of(["umount", str(disk.point)]):
        detach(disk.point)
    if was_dead:
        remove_rules(rules)


def detach(point: Path) -> None:
    """Take the topmost mount at a place from the tree, whoever uses it.

    Raises:
        FaultError: that failed.
    """
    lazily = ["umount", "--lazy"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
    mounts.run([*lazily, str(point)])


def is_dead(disk: Mount) -> bool:
    """Return whether the process that served a disk is gone."""
    try:
        # Of this the kernel remembers nothing.
        os.statvfs(disk.point)
    except OSError as error:
        return error.errno in _NOBODY_CONNECTED
    return False


def remove_dead(path: Path) -> str:
    """Unmount the disk that a path is on if its process is gone; returns a sentence if it was."""
    found = [one for one in mounts.all_mounts() if one.point in (path, *path.parents)]
    if not found or found[-1].kind != KIND or not is_dead(found[-1]):
        return ""
    with suppress(FaultError):
        detach(found[-1].point)
        remove_rules(rules_of(found[-1]))
        return f"the process that served {found[-1].point} has ended; the disk was unmounted"
    return ""
