"""Whether a cluster of a size can work on this machine, found out before anything is made."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fault_injection import control_groups
from fault_injection.control_groups import PIDS
from lab.cluster.spec import ClusterSpec
from lab.machine.disk_kinds import FUSE, LOOP, SIZED, TMPFS

BROKER_MB = 70
"""Memory of a broker with a few directories, measured; a controller takes less."""
DIRECTORY_KB = 300
"""Memory that each further directory adds: its thread, its files."""
SERVED_DISK_MB = 40
"""Memory of the process of a disk of kind fuse when it has worked."""
BROKER_THREADS = 12
DIRECTORY_THREADS = 2
LOOP_DEVICES_MAX = 256
DISK_MB_MIN = 8
"""Below that the first segment of a log does not fit beside the metadata of a file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Resources of this machine.

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


def refusal(machine: Machine, spec: ClusterSpec) -> str:
    """Return why a cluster cannot work, with what it takes and what there is; empty if it can."""
    brokers, disks, size_mb, port_base = spec.brokers, spec.disks, spec.disk_mb, spec.port_base
    kind = spec.disk_kind or TMPFS
    directories = brokers * disks
    asked = f"{brokers} brokers with {disks} directories each"
    memory_mb = brokers * BROKER_MB + directories * DIRECTORY_KB // 1024
    if kind == FUSE:
        memory_mb += directories * SERVED_DISK_MB
    if memory_mb > machine.memory_mb:
        return f"{asked} need about {memory_mb:,} MiB of memory, {machine.memory_mb:,} MiB are free"
    threads = brokers * BROKER_THREADS + directories * DIRECTORY_THREADS
    if threads > machine.threads:
        return f"{asked} need about {threads:,} threads, this machine allows {machine.threads:,}"
    if kind in SIZED and size_mb < DISK_MB_MIN:
        return f"a disk of {size_mb} MiB is too small, {DISK_MB_MIN} MiB are the least"
    if kind == LOOP:
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


def this_machine(folder: Path, uid: int, process: Path = Path("/proc/self")) -> Machine:
    """Return what is left of this machine, or of the container that this is.

    Each limit counts what it counts and nothing else: that of the kernel all threads, that of a
    control group those of the group, that of a user those of the user.

    Args:
        folder: Where clusters are kept, itself or below a folder that is there.
        uid: User that the servers run as.
        process: The folder of this process in /proc.
    """
    while not folder.exists():
        folder = folder.parent
    found = os.statvfs(folder)
    limits = [
        _number(Path("/proc/sys/kernel/threads-max")),
        _number(Path("/proc/sys/kernel/pid_max")),
    ]
    # "3/512": of 512 tasks 3 run.
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    rests = [min((limit for limit in limits if limit), default=32_768) - running]
    if (of_group := control_groups.left(PIDS, process)) is not None:
        rests.append(of_group)
    of_user, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if of_user != resource.RLIM_INFINITY and uid != 0:
        rests.append(of_user - _threads_of(uid))
    return Machine(
        memory_mb=control_groups.free_memory(process) >> 20,
        threads=max(0, min(rests)),
        disk_mb=found.f_bavail * found.f_frsize >> 20,
    )


def _threads_of(uid: int) -> int:
    count = 0
    for each in Path("/proc").glob("[0-9]*/task"):
        # Whatever ends meanwhile is none.
        with suppress(OSError):
            count += len(os.listdir(each)) if each.stat().st_uid == uid else 0  # noqa: PTH208 - names only
    return count


def _number(file: Path) -> int:
    with suppress(OSError, ValueError):
        return int(file.read_text().strip())
    return 0
