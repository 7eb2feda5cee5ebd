"""Clusters for your tests: with pytest by fixtures (`jbodlab.testing.plugin`), or without it.

    from jbodlab.testing import Cluster

    with Cluster(brokers=3, disks=2) as cluster:
        topic = cluster.new_topic(partitions=6, replicas=3)
        with cluster.leader_log_dir(topic).fails("permission") as fault:
            fault.wait_detected()

`docs/testing.md` has the members of `Cluster`, `Broker`, `Controller`, `LogDir` and `Fault`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.testing.asynchronous import AsyncCluster
    from lab.testing.clusters import Broker, Cluster, Controller, Fault, LogDir
    from lab.testing.served import ServedCluster

__all__ = ["AsyncCluster", "Broker", "Cluster", "Controller", "Fault", "LogDir", "ServedCluster"]


def __getattr__(name: str) -> Any:
    """Import the lab when something of it is asked for, and not with the plugin."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lab.testing import asynchronous, clusters, served

    modules = {"AsyncCluster": asynchronous, "ServedCluster": served}
    return getattr(modules.get(name, clusters), name)
