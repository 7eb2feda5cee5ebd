"""What is left of a cluster that has ended: nothing, and that is looked after."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from fault_injection import processes as all_processes
from fault_injection.preload.control import RULES_VARIABLE
from lab.cluster import disks, processes
from lab.cluster.waiting import POLL_MAX_S

PATIENCE_S = 5.0
"""The kernel lets go of loop devices and of killed processes a moment later."""


def of(root: Path) -> list[str]:
    """Return what is left of a cluster in a folder for good, one line each.

    Processes that were started for it, mounts below it, loop devices on images in it, files that
    processes of anybody follow as their rules for faults, and the folder itself.
    """
    end = time.monotonic() + PATIENCE_S
    while (found := _now(root)) and time.monotonic() < end:
        time.sleep(POLL_MAX_S)
    return found


def _now(root: Path) -> list[str]:
    found = [f"process {one.pid} still runs" for one in processes.of_cluster(root)]
    found += [f"{path} is still mounted" for path in disks.mounts_below(root)]
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            image = file.read_text().strip().removesuffix(" (deleted)")
            if root in Path(image).parents:
                found.append(f"loop device {file.parts[3]} still holds {image}")
    for pid, _ in all_processes.everybody():
        rules = all_processes.variables(pid).get(RULES_VARIABLE, "")
        if root in Path(rules).parents:
            found.append(f"process {pid} still follows {rules}")
    if root.exists():
        found.append(f"{root} is still there")
    return list(dict.fromkeys(found))
