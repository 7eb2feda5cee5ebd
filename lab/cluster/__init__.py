"""A cluster of real processes on this machine: planned, formatted, started, broken, healed, ended.

`Cluster` is the door; its nodes, their log directories and the faults of these hang below it:

    cluster = Cluster.plan(folder, ClusterSpec(brokers=3, disks=2))
    cluster.make_folders()
    cluster.make_directories()
    cluster.start()
    cluster.create_topic("orders", partitions=6, replicas=3)
    with cluster.leader("orders", 0).log_dir_of("orders", 0).fails("permission"):
        cluster.wait_leaders("orders")
    cluster.close()

The command line, the tests and the measurements all use it. Servers run the sources that the
caller runs, as an unprivileged user where the caller is root, on ports that nobody else is given
while the cluster lives. Whatever waits has a deadline, and says at its end what it waited for and
what every node printed last.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.cluster.cluster import Cluster
    from lab.cluster.faults import Fault
    from lab.cluster.log_dir import LogDir
    from lab.cluster.node import Broker, Node
    from lab.cluster.spec import ClusterSpec
    from lab.machine.waiting import NotInTimeError, wait_for

__all__ = [
    "Broker",
    "Cluster",
    "ClusterSpec",
    "Fault",
    "LogDir",
    "Node",
    "NotInTimeError",
    "wait_for",
]
# By relative names: in a wheel the package has another one.
_MODULES = {
    "Broker": ".node",
    "Cluster": ".cluster",
    "ClusterSpec": ".spec",
    "Fault": ".faults",
    "LogDir": ".log_dir",
    "Node": ".node",
    "NotInTimeError": "..machine.waiting",
    "wait_for": "..machine.waiting",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that a help gets the description without the processes."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __package__), name)
