"""Folders of clusters that belong to one process, and what is left of clusters that ended."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from fault_injection import processes as all_processes
from fault_injection.preload.control import RULES_VARIABLE
from lab.machine import disks, processes
from lab.machine.waiting import POLL_MAX_S

PATIENCE_S = 5.0
"""The kernel lets go of loop devices and of killed processes a moment later."""

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


def left_of(root: Path) -> list[str]:
    """Return what is left of a cluster in a folder for good, one line each.

    Processes that were started for it, mounts below it, loop devices on images in it, files that
    processes of anybody follow as their rules for faults, and the folder itself.
    """
    end = time.monotonic() + PATIENCE_S
    while (found := _left_now(root)) and time.monotonic() < end:
        time.sleep(POLL_MAX_S)
    return found


def _left_now(root: Path) -> list[str]:
    found = [f"process {one.pid} still runs" for one in processes.of_cluster(root)]
    found += [f"{path} is still mounted" for path in disks.mounts_below(root)]
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            image = os.fsdecode(file.read_bytes().strip().removesuffix(b" (deleted)"))
            if root in Path(image).parents:
                found.append(f"loop device {file.parts[3]} still holds {image}")
    for pid, _ in all_processes.everybody():
        rules = all_processes.variables(pid).get(RULES_VARIABLE, "")
        if root in Path(rules).parents:
            found.append(f"process {pid} still follows {rules}")
    if root.exists():
        found.append(f"{root} is still there")
    return list(dict.fromkeys(found))
