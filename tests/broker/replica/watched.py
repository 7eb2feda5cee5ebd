"""Directories whose room a test tells."""

from __future__ import annotations

from broker.disk.directory.log_dir import LogDir
from broker.disk.upkeep.condition_monitor import ConditionMonitor, ConditionSettings, Look
from jbodlab.runtime.machine import system_environment
from tests.broker.replicas import Host

TOTAL, RESERVED = 10_000_000, 100_000
ROOM, NO_ROOM = TOTAL // 2, RESERVED - 1


def watch(host: Host) -> ConditionMonitor:
    """Watch the directories of a host; how much room there is the test says with `look`."""
    monitor = ConditionMonitor(
        host.log_dirs,
        ConditionSettings(reserved_bytes=RESERVED),
        on_degraded=lambda _degraded: None,
        monotonic_s=system_environment().monotonic_s,
    )
    monitor.add_listener(host.manager.roles)
    for log_dir in host.dirs:
        monitor.looked(log_dir, Look(TOTAL, ROOM))
    return monitor


def look(monitor: ConditionMonitor, log_dir: LogDir, free_bytes: int) -> None:
    monitor.looked(log_dir, Look(TOTAL, free_bytes))
