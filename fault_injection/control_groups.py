"""Resources that a process may still use by its control groups: what is left of each limit.

A container's limit is the one of its group or of a group above, and what counts against it is the
use of that very group, whatever the rest of the machine does. Version 2 has one tree for all
resources, version 1 one for each; a machine may have both. A container often sees its own group as
the root of the tree, and its path as that of the host: then the root is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fault_injection import mounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource that groups limit.

    Attributes:
        controller: Name of its tree in version 1.
        files: Limit and use in version 1, then in version 2.
        given_back: The entries of the group's `memory.stat` that are no use: caches of files that
            the kernel gives back.
    """

    controller: str
    files: tuple[tuple[str, str], tuple[str, str]]
    given_back: tuple[str, str] = ("", "")


PIDS = Resource(controller="pids", files=(("pids.max", "pids.current"),) * 2)
MEMORY = Resource(
    controller="memory",
    files=(
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ("memory.max", "memory.current"),
    ),
    given_back=("total_inactive_file", "inactive_file"),
)


def free_memory(process: Path = Path("/proc/self")) -> int:
    """Return how many bytes of memory a process may still take, of its machine or its groups."""
    found = [0]
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            found = [int(line.split()[1]) << 10]
    of_group = left(MEMORY, process)
    return max(0, min([*found, *([] if of_group is None else [of_group])]))


def left(resource: Resource, process: Path = Path("/proc/self")) -> int | None:
    """Return how much of a resource a process may still take; None where nothing limits it.

    Args:
        resource: `PIDS`, or `MEMORY` in bytes.
        process: Its folder in /proc.
    """
    rests = []
    for version, folder in _groups(resource, process):
        limit_file, use_file = resource.files[version - 1]
        limit, use = _number(folder / limit_file), _number(folder / use_file)
        if limit is not None and use is not None:
            rests.append(limit - use + _given_back(folder, resource.given_back[version - 1]))
    return min(rests, default=None)


def _groups(resource: Resource, process: Path) -> Iterator[tuple[int, Path]]:
    """Yield the folders of the group of a process and of those above, with their version."""
    paths = dict(_paths(process))
    for mount in mounts.all_mounts(process):
        if mount.kind == "cgroup2":
            version, tree = 2, ""
        elif mount.kind == "cgroup" and resource.controller in mount.options.split(","):
            version, tree = 1, resource.controller
        else:
            continue
        folder = mount.point
        with suppress(ValueError, KeyError):
            own = mount.point / paths[tree].relative_to(mount.root)
            folder = own if own.is_dir() else folder
        for each in (folder, *folder.parents):
            if each.is_relative_to(mount.point):
                yield version, each


def _paths(process: Path) -> Iterator[tuple[str, Path]]:
    """Yield the group of a process by controller; the name of version 2 is empty."""
    with suppress(OSError):
        for line in (process / "cgroup").read_bytes().splitlines():
            _, controllers, path = os.fsdecode(line).split(":", 2)
            yield from ((name, Path(path)) for name in controllers.split(","))


def _number(file: Path) -> int | None:
    """Return what a file says; None for one that is not there, or says `max`."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _given_back(folder: Path, name: str) -> int:
    if name:
        with suppress(OSError, ValueError):
            for line in (folder / "memory.stat").read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == name:
                    return int(value)
    return 0
