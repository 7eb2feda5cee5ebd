"""The mount table, and the few mount commands that faults need."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from fault_injection.errors import FaultError

TIMEOUT_S = 30.0

_ESCAPED = re.compile(rb"\\([0-3][0-7]{2})")
_OPTIONAL = 6
"""The first field of a line of mountinfo that may be missing; `-` ends those."""
_FIELDS_MIN = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount.

    Attributes:
        point: Where.
        kind: Type of the file system.
        source: Object that is mounted, such as a device.
        root: Which folder of that file system is seen there.
        options: Those of the file system, separated by commas.
    """

    point: Path
    kind: str
    source: str
    root: Path = Path("/")
    options: str = ""


def all_mounts(process: Path = Path("/proc/self")) -> list[Mount]:
    """Return all mounts that a process sees, by its folder in /proc; those on top of others last.

    Names in the table are bytes of somebody's choice, UTF-8 or not, as those of all files.
    """
    found = []
    for line in (process / "mountinfo").read_bytes().split(b"\n"):
        fields = list(map(_name, line.split(b" ")))
        if len(fields) > _FIELDS_MIN:
            kind, source, options = fields[fields.index("-", _OPTIONAL) + 1 :][:3]
            root, point = Path(fields[3]), Path(fields[4])
            found.append(Mount(point=point, kind=kind, source=source, root=root, options=options))
    return found


def is_mounted(place: Path) -> bool:
    """Return whether something is mounted at a place, also a folder of the disk it lies on."""
    return any(mount.point == place for mount in all_mounts())


def own_disk(directory: Path) -> Mount | None:
    """Return the mount that a directory has to itself: it is one, or it lies right in one."""
    for place in (directory, directory.parent):
        found = [mount for mount in all_mounts() if mount.point == place]
        if found and place != Path(place.anchor):
            return found[-1]
    return None


def bind(source: Path, place: Path) -> None:
    """Let a directory be seen at another place too.

    Raises:
        FaultError: that failed.
    """
    run(["mount", "--bind", str(source), str(place)])


def unmount(place: Path) -> None:
    """Take the topmost mount away from a place.

    Raises:
        FaultError: somebody uses it.
    """
    run(["umount", str(place)])


def run(command: list[str]) -> None:
    """Run a command to its end, whatever signals come meanwhile.

    Raises:
        FaultError: it failed, with what it said.
    """
    if error := error_of(command):
        raise FaultError(f"{' '.join(command)}: {error}")


def error_of(command: list[str]) -> str:
    """Run a command; returns what it complained about, empty when it worked."""
    # In a session of its own: a Ctrl-C must not stop a mount half way.
    with contextlib.suppress(subprocess.TimeoutExpired):
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=TIMEOUT_S,
                start_new_session=True,
            )
        except OSError as error:
            return str(error)
        lines = done.stderr.strip().splitlines()
        return "" if done.returncode == 0 else (lines[-1] if lines else f"exit {done.returncode}")
    return f"{command[0]} did not answer within {TIMEOUT_S:.0f} s"


def _name(field: bytes) -> str:
    """Return a field of mountinfo as Python names files, without the octal escapes of blanks."""
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), field))
