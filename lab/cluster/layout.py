"""How a cluster is laid out: folders, addresses and property files of every node.

ROOT/config/broker-1.properties
ROOT/logs/broker-1.log
ROOT/broker-1/disk-1/data            a disk each, what servers are given inside of it
ROOT/broker-1/disk-2/data
ROOT/broker-1/disk-3/data
ROOT/broker-1/metadata-disk/metadata
ROOT/controller-100/metadata-disk/metadata
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.vocabulary import properties
from lab.cluster.ports import HOST
from lab.cluster.processes import ServerUser

CONTROLLER_ID = 100
NOWHERE = Path("/nonexistent")
"""Where files would be that are not known."""


def plan(
    name: str,
    root: Path,
    cluster_id: str,
    user: ServerUser,
    ports: Sequence[int],
    *,
    log_dirs: int = 3,
) -> ClusterState:
    """Return the description of a cluster that does not exist yet.

    Args:
        name: Its name.
        root: The folder of all of it.
        cluster_id: Its id, as text.
        user: Who the servers run as.
        ports: Port of the controller, then one of each broker.
        log_dirs: Log directories of each broker.
    """
    controller = _node(root, "controller", CONTROLLER_ID, ports[0], 0)
    brokers = [
        _node(root, "broker", broker_id, port, log_dirs)
        for broker_id, port in enumerate(ports[1:], start=1)
    ]
    return ClusterState(
        name=name,
        root=str(root),
        cluster_id=cluster_id,
        uid=user.uid,
        gid=user.gid,
        mounts=(),
        nodes=(controller, *brokers),
    )


def foreign(name: str, nodes: Iterable[NodeState]) -> ClusterState:
    """Return the description of a cluster that somebody else has started."""
    return ClusterState(
        name=name,
        root=str(NOWHERE),
        cluster_id="",
        uid=os.geteuid(),
        gid=os.getegid(),
        mounts=(),
        nodes=tuple(nodes),
    )


def directories(state: ClusterState) -> list[Path]:
    """Return every directory that servers are given, each once."""
    found = {path: None for node in state.nodes for path in (*node.log_dirs, node.metadata_log_dir)}
    return [Path(path) for path in found]


def property_file(
    state: ClusterState, node: NodeState, settings: Mapping[str, str] | None = None
) -> str:
    """Return the text of a node's property file, in Kafka's own keys; `settings` come last."""
    is_broker = node.role == "broker"
    listener = "PLAINTEXT" if is_broker else "CONTROLLER"
    controller = state.controller
    address = f"{listener}://{node.host}:{node.port}"
    values = {
        "process.roles": node.role,
        "node.id": str(node.node_id),
        "controller.quorum.voters": f"{controller.node_id}@{controller.host}:{controller.port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": address,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": ",".join(node.log_dirs),
        "metadata.log.dir": node.metadata_log_dir,
        "default.replication.factor": str(min(3, len(state.brokers))),
        "min.insync.replicas": str(min(2, len(state.brokers))),
    }
    if is_broker:
        values["advertised.listeners"] = address
    return properties.render({**values, **(settings or {})})


def _node(root: Path, role: str, node_id: int, port: int, log_dir_count: int) -> NodeState:
    name = f"{role}-{node_id}"
    metadata = str(root / name / "metadata-disk" / "metadata")
    log_dirs = tuple(
        str(root / name / f"disk-{number}" / "data") for number in range(1, log_dir_count + 1)
    )
    return NodeState(
        role=role,
        node_id=node_id,
        host=HOST,
        port=port,
        properties_file=str(root / "config" / f"{name}.properties"),
        log_file=str(root / "logs" / f"{name}.log"),
        metadata_log_dir=metadata,
        # A controller stores nothing but metadata; without this key it would take a default.
        log_dirs=log_dirs or (metadata,),
    )
