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
from itertools import zip_longest
from pathlib import Path

from msgspec.structs import replace

from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.vocabulary import properties
from lab.cluster import security as closed
from lab.cluster.engine import Engine
from lab.cluster.spec import CONTROLLER_ID, ClusterSpec, spec_of, written
from lab.machine.ports import HOST
from lab.machine.processes import ServerUser

ELSEWHERE = "ELSEWHERE"
"""Name of the listener for clients that are not on this machine."""
NOWHERE = Path("/nonexistent")
"""Where files would be that are not known."""


GRPC_SERVERS = "jbodlab.controller.bootstrap.servers"
"""The setting with which brokers look for controllers of a quorum."""


def refusal(root: Path) -> str:
    """Return why no cluster can lie in a folder, as one sentence; empty if one can."""
    text = str(root)
    if "," in text:
        return f"no cluster can lie in {text}: `log.dirs` is split at commas"
    try:
        os.fsencode(root).decode()
    except UnicodeDecodeError:
        return f"no cluster can lie in {text!r}: property files are UTF-8, and its name is not"
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"no cluster can lie in {text!r} in this locale: set LC_ALL=C.UTF-8"
    return ""


def plan(
    name: str,
    root: Path,
    cluster_id: str,
    user: ServerUser,
    ports: Sequence[int],
    spec: ClusterSpec,
    metrics_ports: Sequence[int] = (),
    grpc_ports: Sequence[int] = (),
) -> ClusterState:
    """Return the description of a cluster that does not exist yet.

    Args:
        name: Its name.
        root: The folder of all of it.
        cluster_id: Its id, as text.
        user: User that the servers run as.
        ports: Those of the controllers, then one of each broker; combined nodes have both.
        spec: Description of the cluster.
        metrics_ports: Where each broker shows its metrics; empty if none does.
        grpc_ports: Where brokers reach each controller; empty where that is its only port.
    """
    of_controllers, of_brokers = ports[: spec.controller_count], ports[spec.controller_count :]
    assert len(of_brokers) == spec.brokers
    separate, combined = ((), of_controllers) if spec.combined else (of_controllers, ())
    nodes = [
        replace(_node(root, "controller", CONTROLLER_ID + number, port, 0), grpc_port=grpc_port)
        for number, (port, grpc_port) in enumerate(zip_longest(separate, grpc_ports, fillvalue=0))
    ]
    ports_of_brokers = zip_longest(of_brokers, combined, metrics_ports, fillvalue=0)
    for number, (port, own, metrics) in enumerate(ports_of_brokers, start=1):
        node = _node(root, "broker", number, port, spec.disks)
        nodes.append(replace(node, controller_port=own, metrics_port=metrics))
    if spec.security:
        file = str(root / "security" / "admin.properties")
        nodes = [replace(node, client_file=file) for node in nodes]
    return ClusterState(
        name=name,
        root=str(root),
        cluster_id=cluster_id,
        uid=user.uid,
        gid=user.gid,
        mounts=(),
        nodes=tuple(nodes),
        spec=written(spec),
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
    spec = spec_of(state)
    of_clients = closed.LISTENER if spec.security else "PLAINTEXT"
    listener = of_clients if is_broker else "CONTROLLER"
    address = f"{listener}://{node.host}:{node.port}"
    listeners, roles = address, node.role
    if node.grpc_port:
        listeners += f",{closed.GRPC}://{node.host}:{node.grpc_port}"
    if node.controller_port:
        listeners += f",CONTROLLER://{node.host}:{node.controller_port}"
        roles += ",controller"
    engine = spec.runs
    replicas, in_sync = str(min(3, len(state.brokers))), str(min(2, len(state.brokers)))
    values = {
        "process.roles": roles,
        "node.id": str(node.node_id),
        **_quorum(state, engine),
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        **_grpc(state),
        "log.dirs": ",".join(node.log_dirs),
        "metadata.log.dir": node.metadata_log_dir,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
    }
    if engine.is_kafka:
        # Our own brokers make these topics with as many replicas as there are brokers.
        values |= {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "offsets.topic.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
        }
    if is_broker:
        values["advertised.listeners"] = address
    if spec.security:
        values |= closed.settings(state, node)
    if is_broker and spec.advertised:
        values |= _elsewhere(values, state, node)
    return properties.render({**values, **(settings or {})})


def _elsewhere(values: Mapping[str, str], state: ClusterState, node: NodeState) -> dict[str, str]:
    """Return the settings of a second listener, which clients elsewhere reach by its address."""
    first = closed.LISTENER if spec_of(state).security else "PLAINTEXT"
    host, port, here = spec_of(state).advertised[node.node_id - 1]
    protocols = values["listener.security.protocol.map"]
    protocol = dict(one.split(":") for one in protocols.split(","))[first]
    prefix = f"listener.name.{first.lower()}."
    return {
        "listeners": f"{values['listeners']},{ELSEWHERE}://0.0.0.0:{here}",
        "advertised.listeners": f"{values['advertised.listeners']},{ELSEWHERE}://{host}:{port}",
        "listener.security.protocol.map": f"{protocols},{ELSEWHERE}:{protocol}",
        "inter.broker.listener.name": first,
        # It lets in whom the first one lets in.
        **{
            key.replace(prefix, f"listener.name.{ELSEWHERE.lower()}.", 1): value
            for key, value in values.items()
            if key.startswith(prefix)
        },
    }


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


def next_controller(state: ClusterState, ports: Sequence[int]) -> NodeState:
    """Return one more controller of a quorum.

    Args:
        state: The cluster.
        ports: That for controllers, and that for brokers.
    """
    node_id = max(node.node_id for node in state.controllers) + 1
    port, grpc_port = ports
    return replace(_node(Path(state.root), "controller", node_id, port, 0), grpc_port=grpc_port)


def controller_address(node: NodeState) -> str:
    """Return where a node is a controller, as `host:port`."""
    return f"{node.host}:{node.controller_port or node.port}"


def _grpc(state: ClusterState) -> dict[str, str]:
    """Return the settings by which brokers find controllers that have a port for them."""
    addresses = [f"{each.host}:{each.grpc_port}" for each in state.controllers if each.grpc_port]
    if not addresses:
        return {}
    return {
        "controller.listener.names": f"CONTROLLER,{closed.GRPC}",
        "listener.security.protocol.map": (
            f"CONTROLLER:PLAINTEXT,{closed.GRPC}:PLAINTEXT,PLAINTEXT:PLAINTEXT"
        ),
        GRPC_SERVERS: ",".join(addresses),
    }


def _quorum(state: ClusterState, engine: Engine) -> dict[str, str]:
    """Return the setting by which nodes find the controllers."""
    addresses = {each.node_id: controller_address(each) for each in state.controllers}
    if engine.has_dynamic_quorum:
        return {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
    voters = (f"{node_id}@{address}" for node_id, address in addresses.items())
    return {"controller.quorum.voters": ",".join(voters)}
