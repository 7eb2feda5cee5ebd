"""Folders of clusters that belong to one process, and what a killed process left of them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from lab.cluster import disks, processes

_NAME = re.compile(r"jbodlab-of-(\d+)-\w+")


def make_folder() -> Path:
    """Make a folder that the servers' user may enter; it carries the number of this process."""
    folder = Path(tempfile.mkdtemp(prefix=f"jbodlab-of-{os.getpid()}-"))
    folder.chmod(0o755)
    return folder


def remove_folder(folder: Path) -> None:
    """End what runs in a folder, unmount what is mounted there, and remove it."""
    processes.end(processes.below(folder), deadline_s=0)
    disks.unmount_below(folder)
    shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers() -> list[Path]:
    """Remove the folders of processes that are no more; returns them."""
    found = []
    for folder in Path(tempfile.gettempdir()).glob("jbodlab-of-*"):
        match = _NAME.fullmatch(folder.name)
        if match and processes.find(int(match[1])) is None and _is_own(folder):
            remove_folder(folder)
            found.append(folder)
    return found


def _is_own(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False
