"""Puts the library where every user can load it, once for each version of it.

A wheel has the compiled library inside. In a clone `cc` compiles it at the first use. The result
lies in /var/cache/jbodlab (root) or in the user's cache folder, under a name that holds a digest of
all it was made from. Root's own folders are closed to the user that brokers run as, hence the
difference, and so may be the folder of the wheel.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from fault_injection.errors import FaultError

ROOT_CACHE_DIR = Path("/var/cache/jbodlab")

SOURCES = tuple(Path(__file__).with_name(name) for name in ("shim.c", "calls.h"))
COMPILED = Path(__file__).with_name("faults.so")
"""What `scripts/build_wheels.py` compiles into a wheel for its machine; a clone has none."""
_COMPILER = "cc"
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-U_FORTIFY_SOURCE", "-Wall", "-Wextra")
_LIBRARIES = ("-ldl",)
_COMPILE_DEADLINE_S = 60.0


def library(folder: Path | None = None) -> Path:
    """Return the built library, built now if this version of it is not there yet.

    Args:
        folder: Where built libraries are kept; None for the usual one.

    Raises:
        FaultError: it has to be compiled and cannot be, or the folder cannot be used.
    """
    folder = folder or _cache_dir()
    path = folder / f"faults-{_digest()}.so"
    if any(character in str(path) for character in ": \t\n"):
        raise FaultError(f"{path} cannot be preloaded: its path contains a colon or a blank")
    if not path.exists():
        try:
            if not folder.exists():
                folder.mkdir(parents=True)
                folder.chmod(0o755)  # Whatever the umask is: brokers run as another user.
            _build(path)
        except OSError as error:
            raise FaultError(
                f"cannot build the preloaded library {path}: {error.strerror}"
            ) from error
    return path


def _cache_dir() -> Path:
    if os.geteuid() == 0:
        return ROOT_CACHE_DIR
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "jbodlab"


def _digest() -> str:
    made_from = [platform.machine().encode(), " ".join((*FLAGS, *_LIBRARIES)).encode()]
    made_from += [file.read_bytes() for file in (*SOURCES, COMPILED) if file.exists()]
    return hashlib.sha256(b"\0".join(made_from)).hexdigest()[:16]


def _build(path: Path) -> None:
    """Make it beside the target and rename, so that nobody ever loads half a library."""
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=".building-", suffix=".so")
    os.close(fd)
    building = Path(name)
    try:
        if COMPILED.exists():
            shutil.copyfile(COMPILED, building)
        else:
            _compile(building)
        building.chmod(0o755)
        building.rename(path)
    finally:
        building.unlink(missing_ok=True)


def _compile(target: Path) -> None:
    command = [_COMPILER, *FLAGS, "-o", str(target), str(SOURCES[0]), *_LIBRARIES]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILE_DEADLINE_S, check=False
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
