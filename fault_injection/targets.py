"""Finds the target of a fault among the clusters that this machine has files about."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fault_injection import processes
from fault_injection.errors import FaultError
from fault_injection.mechanism import COMMAND_LINE, Advice, Peer, TargetBroker
from fault_injection.preload.control import RULES_VARIABLE
from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState, NodeState, ProcessState
from jbodlab.vocabulary.errors import DecodeError

PRELOADED = "preloaded-faults"
"""Name of the file with rules for calls, in a broker's folder."""


def cluster(state_dir: Path, name: str) -> ClusterState:
    """Return what is written about a cluster.

    Raises:
        FaultError: nothing is, or it cannot be read.
    """
    file = lab_state.cluster_file(state_dir, name)
    try:
        return lab_state.from_json(file.read_text("utf-8"))
    except FileNotFoundError:
        raise FaultError(f"cluster {name} is not up: {file} does not exist") from None
    except (OSError, DecodeError) as error:
        raise FaultError(f"cannot read {file}: {error}") from error


def broker(state: ClusterState, broker_id: int) -> NodeState:
    """Return a broker of a cluster.

    Raises:
        FaultError: there is none with this id.
    """
    for node in state.brokers:
        if node.node_id == broker_id:
            return node
    known = ", ".join(str(node.node_id) for node in state.brokers)
    raise FaultError(f"unknown broker {broker_id}: cluster {state.name} has {known}")


def log_dir(node: NodeState, wanted: str) -> str:
    """Return a log directory of a broker by its number from 1, or by its path.

    Raises:
        FaultError: it has none such.
    """
    if wanted.isdecimal():
        number = int(wanted)
        if not 1 <= number <= len(node.log_dirs):
            raise FaultError(
                f"broker {node.node_id} has log directories 1 to {len(node.log_dirs)}, got {number}"
            )
        return node.log_dirs[number - 1]
    path = str(Path(wanted))
    if path not in node.log_dirs:
        raise FaultError(
            f"{path} is not a log directory of broker {node.node_id}; "
            f"it has {', '.join(node.log_dirs)}"
        )
    return path


def target_node(node: NodeState, state: ClusterState) -> TargetBroker:
    """Return a node as faults know it, asking its process what rules it follows."""
    process = running(node)
    found = {} if process is None else processes.variables(process.pid)
    rules = found.get(RULES_VARIABLE)
    peers = [peer for one in state.nodes if one.node_id != node.node_id for peer in _peers(one)]
    return as_target(node, process, Path(rules) if rules else None, peers)


def _peers(node: NodeState) -> list[Peer]:
    process, rules = running(node), node.folder / PRELOADED
    pid = 0 if process is None else process.pid
    return as_peers(node, pid, rules if rules.exists() else None)


def as_target(
    node: NodeState,
    process: ProcessState | None,
    rules: Path | None,
    peers: Iterable[Peer],
    advice: Advice = COMMAND_LINE,
) -> TargetBroker:
    """Return a node as its faults know it."""
    of_controller = _controller_ports(node)
    return TargetBroker(
        name=node.name,
        folder=node.folder,
        log_dirs=tuple(map(Path, node.log_dirs)),
        process=process,
        rules=rules,
        host=node.host,
        ports=(node.port, *of_controller) if node.role == "broker" else of_controller,
        peers=tuple(peers),
        is_controller=node.role == "controller" or bool(node.controller_port),
        advice=advice,
    )


def as_peers(node: NodeState, pid: int, rules: Path | None) -> list[Peer]:
    """Return a node as the faults of others know it: as a controller, as a broker, or as both."""
    found = []
    if of_controller := _controller_ports(node):
        name = f"controller-{node.node_id}"
        found.append(Peer(name=name, ports=of_controller, host=node.host, pid=pid, rules=rules))
    if node.role == "broker":
        found.append(Peer(name=node.name, ports=(node.port,), host=node.host, pid=pid, rules=rules))
    return found


def _controller_ports(node: NodeState) -> tuple[int, ...]:
    """Return where a node listens as a controller; empty where it is none, or nobody knows."""
    own = node.port if node.role == "controller" else node.controller_port
    return tuple(port for port in (own, node.grpc_port) if port)


def patient_with(state_dir: Path, given: str) -> TargetBroker | None:
    """Return the node that has a log directory; None where no known cluster has it."""
    path = os.path.realpath(given)
    for file in sorted((state_dir / "clusters").glob("*.json")):
        state = cluster(state_dir, file.stem)
        for node in state.nodes:
            if path in map(os.path.realpath, node.log_dirs):
                return target_node(node, state)
    return None


def running(node: NodeState) -> ProcessState | None:
    """Return the process that runs a node, found anew where somebody else started it."""
    if node.process is not None and processes.is_alive(node.process):
        return node.process
    return processes.with_argument(node.properties_file) if node.properties_file else None
