"""Whether file systems in user space can be mounted on this machine, found out by looking alone."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import pwd
import shutil
import sys
from pathlib import Path

DEVICE = Path("/dev/fuse")
LIBRARY = "fuse3"
PACKAGE = "mfusepy"

_MAY_MOUNT = 1 << 21
"""CAP_SYS_ADMIN among the capabilities of a process."""


def refusal() -> str:
    """Return why no such disk can be mounted by this user here, one line; empty if one can."""
    if sys.platform != "linux":
        return f"FUSE needs Linux, got {sys.platform}"
    if importlib.util.find_spec(PACKAGE) is None:
        return f"FUSE needs the package {PACKAGE}: pip install 'jbodlab[fuse]'"
    if ctypes.util.find_library(LIBRARY) is None:
        return f"FUSE needs the library lib{LIBRARY}: apt install fuse3"
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"FUSE needs {DEVICE}, which uid {os.geteuid()} cannot open ({error.strerror})"
    if os.geteuid() != 0:
        return _user_mount_refusal()
    if not _capabilities() & _MAY_MOUNT:
        return "FUSE needs the right to mount, which root lacks here (CAP_SYS_ADMIN)"
    return ""


def _user_mount_refusal() -> str:
    if shutil.which("fusermount3") is None:
        return "FUSE needs root, or fusermount3: apt install fuse3"
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return f"FUSE needs root or a user with a name, and uid {os.geteuid()} has no name"
    return ""


def _capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
