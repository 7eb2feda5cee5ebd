"""Puts the library where every user can load it, once for each version of it.

It is compiled already for the machines of `MACHINES`; for others, or where its source was edited,
`cc` compiles it at the first use. The library that is loaded lies in one of `lab_state.cache_dirs`,
under a name that holds a digest of all it was made from: the folder of the package may be closed to
the user that brokers run as.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fault_injection.errors import FaultError
from jbodlab.cli import lab_state

SOURCES = tuple(Path(__file__).with_name(name) for name in ("shim.c", "calls.h"))
MACHINES = ("x86_64", "aarch64")
"""For which `scripts/compile_preload.py` compiles it, against glibc."""
FLAGS = ("-std=gnu11", "-Os", "-fPIC", "-shared", "-U_FORTIFY_SOURCE", "-Wall", "-Wextra")
LIBRARIES = ("-ldl",)
_COMPILER = "cc"
_COMPILE_DEADLINE_S = 60.0
_SEPARATORS = ": \t\n"
"""The loader splits LD_PRELOAD at them, and knows no way to quote."""


def library(folders: Sequence[Path] | None = None) -> Path:
    """Return the library, put there now if this version of it is not there yet.

    Args:
        folders: Where it may lie, the first that can be used; None for the usual ones.

    Raises:
        FaultError: it has to be compiled and cannot be, or no folder can be used.
    """
    if folders is None:
        folders = lab_state.cache_dirs(os.environ, os.geteuid())
    reasons = []
    for folder in folders:
        path = folder / file_name(platform.machine())
        reason = _put(path)
        if not reason:
            return path
        reasons.append(f"{path}: {reason}")
    raise FaultError(f"no folder for the preloaded library: {'; '.join(reasons)}")


def file_name(machine: str) -> str:
    """Return the name of the library that these sources make for a machine."""
    made_from = [" ".join((*FLAGS, *LIBRARIES)).encode(), *map(Path.read_bytes, SOURCES)]
    digest = hashlib.sha256(b"\0".join(made_from)).hexdigest()[:16]
    return f"faults-{machine}-{digest}.so"


def compiled(machine: str) -> Path:
    """Return where the library lies that is compiled already; there may be none."""
    return Path(__file__).with_name(file_name(machine))


def _put(path: Path) -> str:
    """Make the library if it is not there; returns why the folder cannot be used."""
    folder = path.parent
    if any(character in str(path) for character in _SEPARATORS):
        return "its path contains a colon or a blank"
    try:
        if reason := lab_state.make_cache(folder, os.geteuid()):
            return reason
        if os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return "nothing may be executed there"
        if not path.exists():
            _build(path)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _build(path: Path) -> None:
    """Make it beside the target and rename, so that nobody ever loads half a library."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=".building-", suffix=".so")
    os.close(fd)
    building = Path(name)
    try:
        made = compiled(platform.machine())
        if made.exists() and _is_glibc():
            shutil.copyfile(made, building)
        else:
            _compile(building)
        building.chmod(0o755)
        building.rename(path)
    finally:
        building.unlink(missing_ok=True)


def _is_glibc() -> bool:
    """Return whether a library that is compiled against glibc, for 64 bit, can be loaded."""
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION")) and sys.maxsize > 2**32
    except (ValueError, OSError):
        return False


def _compile(target: Path) -> None:
    command = [_COMPILER, *FLAGS, "-o", str(target), str(SOURCES[0]), *LIBRARIES]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMPILE_DEADLINE_S,
            check=False,
        )
    except FileNotFoundError:
        raise FaultError(
            f"preloaded faults need a C compiler, and {_COMPILER} is not installed "
            "(apt-get install gcc libc6-dev)"
        ) from None
    except subprocess.TimeoutExpired:
        raise FaultError(f"{_COMPILER} did not end within {_COMPILE_DEADLINE_S:.0f} s") from None
    if done.returncode != 0:
        complaints = [line for line in done.stderr.splitlines() if "error" in line]
        first = (complaints or done.stderr.splitlines() or ["no message"])[0]
        raise FaultError(f"{_COMPILER} cannot build the preloaded library: {first}")
