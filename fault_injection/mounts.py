"""The mount table, and the few mount commands that faults need."""

from __future__ import annotations

import contextlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from fault_injection.errors import FaultError

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount.

    Attributes:
        point: Where.
        kind: Type of the file system.
        source: What is mounted, such as a device.
    """

    point: Path
    kind: str
    source: str


def all_mounts() -> list[Mount]:
    """Return all mounts, those on top of others last."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        fields = line.split(" ")
        behind = fields.index("-")
        found.append(
            Mount(
                point=Path(_unescape(fields[4])),
                kind=fields[behind + 1],
                source=_unescape(fields[behind + 2]),
            )
        )
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
