"""Whether a cluster of a size can work on this machine, found out before anything is made."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BROKER_MB = 70
"""Memory of a broker with a few directories, measured; a controller takes less."""
DIRECTORY_KB = 300
"""What each further directory adds: its thread, its files."""
SERVED_DISK_MB = 40
"""What the process of a disk of kind fuse takes when it has worked."""
BROKER_THREADS = 12
DIRECTORY_THREADS = 2
LOOP_DEVICES_MAX = 256
DISK_MB_MIN = 8
"""Below that the first segment of a log does not fit beside the metadata of a file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is.

    Attributes:
        memory_mb: Free memory.
        threads: How many more there may be.
        disk_mb: Free space where clusters are kept.
        ports: Last TCP port.
    """

    memory_mb: int
    threads: int
    disk_mb: int
    ports: int = 65_535


def refusal(
    machine: Machine,
    *,
    brokers: int,
    disks: int,
    size_mb: int,
    kind: str,
    port_base: int | None = None,
) -> str:
    """Return why a cluster cannot work, with what it takes and what there is; empty if it can."""
    directories = brokers * disks
    asked = f"{brokers} brokers with {disks} directories each"
    memory_mb = brokers * BROKER_MB + directories * DIRECTORY_KB // 1024
    if kind == "fuse":
        memory_mb += directories * SERVED_DISK_MB
    if memory_mb > machine.memory_mb:
        return f"{asked} need about {memory_mb:,} MiB of memory, {machine.memory_mb:,} MiB are free"
    threads = brokers * BROKER_THREADS + directories * DIRECTORY_THREADS
    if threads > machine.threads:
        return f"{asked} need about {threads:,} threads, this machine allows {machine.threads:,}"
    if kind in ("tmpfs", "loop") and size_mb < DISK_MB_MIN:
        return f"a disk of {size_mb} MiB is too small, {DISK_MB_MIN} MiB are the least"
    if kind == "loop":
        if directories > LOOP_DEVICES_MAX:
            return f"{asked} need {directories:,} loop devices, at most {LOOP_DEVICES_MAX} are used"
        if directories * size_mb > machine.disk_mb:
            return (
                f"{directories:,} disks of {size_mb:,} MiB do not fit in the {machine.disk_mb:,} "
                "MiB that are free"
            )
    if port_base is not None and port_base + brokers > machine.ports:
        return f"ports {port_base} to {port_base + brokers} end beyond {machine.ports}"
    return ""


def this_machine(folder: Path) -> Machine:
    """Return what this machine has, clusters being kept in a folder or below its parents."""
    while not folder.exists():
        folder = folder.parent
    found = os.statvfs(folder)
    limits = [
        _number(Path("/proc/sys/kernel/threads-max")),
        _number(Path("/proc/sys/kernel/pid_max")),
        _number(Path("/sys/fs/cgroup/pids.max")),
        _number(Path("/sys/fs/cgroup/pids/pids.max")),
    ]
    # "3/512": of 512 tasks 3 run.
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    return Machine(
        memory_mb=_memory_mb(),
        threads=min((limit for limit in limits if limit), default=32_768) - running,
        disk_mb=found.f_bavail * found.f_frsize >> 20,
    )


def _number(file: Path) -> int:
    with suppress(OSError, ValueError):
        return int(file.read_text().strip())
    return 0


def _memory_mb() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0
