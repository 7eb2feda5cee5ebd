"""The cluster that a command is about, and the words for its brokers and directories."""

from __future__ import annotations

import contextlib
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fault_injection import targets
from fault_injection.journal import read_faults
from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState
from jbodlab.cli.output import Output, table
from lab import up_and_down
from lab.cluster import Broker, Cluster, LogDir, Node
from lab.errors import LabError
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles

WHOLE = "cluster"
"""The word for a cluster as a whole."""
_TARGET = re.compile(r"(?:broker-)?(\d+)(?:/(?:dir-)?(\d+))?")


def list_all(_: Namespace, output: Output, __: Interrupts) -> int:
    """List the clusters of this user, and what is broken in each; returns the exit code."""
    files = StateFiles.open()
    found = [_described(files, name) for name in files.names()]
    columns = ("cluster", "servers", "running", "open faults", "bootstrap servers")
    keys = ("name", "nodes", "running", "open_faults", "bootstrap")
    rows = [[one[key] for key in keys] for one in found]
    output.result(found, table(columns, rows) if found else "no clusters")
    return 0


def show_status(options: Namespace, output: Output, _: Interrupts) -> int:
    """Show the state of a cluster; returns 1 if something is missing, else 0."""
    # The module that asks brokers is imported only here: the other commands start without it.
    from lab import status

    files = StateFiles.open()
    found = status.look(read(files, options.cluster), files.journal)
    output.result(found.to_json(), found.text())
    return 0 if found.is_healthy else 1


def _described(files: StateFiles, name: str) -> dict[str, Any]:
    state = read(files, name)
    root = Path(state.root)
    faults = read_faults(files.journal)
    return {
        "name": name,
        "bootstrap": state.bootstrap,
        "root": state.root,
        "nodes": len(state.nodes),
        "running": len(lab_state.running_nodes(state)),
        "open_faults": sum(root in fault.path.parents for fault in faults),
    }


def read(files: StateFiles, name: str) -> ClusterState:
    """Return a cluster with the processes that run its nodes now, whoever started them.

    Raises:
        LabError: there is none of this name.
    """
    state = files.read(name)
    if state is None:
        raise LabError(f"no cluster named {name} is up")
    nodes = tuple(
        replace(node, process=targets.running(node) or node.process) for node in state.nodes
    )
    return replace(state, nodes=nodes)


def opened(files: StateFiles, name: str, interrupts: Interrupts | None) -> Cluster:
    """Take hold of a cluster that is up; signals are for the main thread, others have none.

    Raises:
        LabError: there is none of this name.
    """
    guard = contextlib.nullcontext if interrupts is None else interrupts.deferred
    cluster = up_and_down.opened(read(files, name), files, guard)
    for broker in cluster.brokers:
        broker.follow_again()
    return cluster


def nodes(cluster: Cluster, words: Sequence[str]) -> list[Node]:
    """Return the nodes that words name, the controller first.

    Raises:
        LabError: a word names none.
    """
    if not words or "all" in words:
        return list(cluster.nodes.values())
    return [_node(cluster, word) for word in dict.fromkeys(words)]


def target(cluster: Cluster, word: str) -> tuple[Broker, LogDir | None]:
    """Return the broker, and the directory if one is named.

    Raises:
        LabError: there is none such.
    """
    match = _TARGET.fullmatch(word)
    if match is None:
        raise LabError(f"expected a target such as broker-1 or broker-1/2, got {word!r}")
    broker = _broker(cluster, int(match[1]))
    if match[2] is None:
        return broker, None
    number = int(match[2])
    if not 1 <= number <= len(broker.log_dirs):
        raise LabError(
            f"broker-{broker.id} has the directories 1 to {len(broker.log_dirs)}, not {number}"
        )
    return broker, broker.log_dir(number)


def _node(cluster: Cluster, word: str) -> Node:
    if word == "controller":
        return cluster.controller
    for node in cluster.controllers:
        if word == f"controller-{node.id}":
            return node
    broker, directory = target(cluster, word)
    if directory is not None:
        raise LabError(f"expected a broker, got the directory {word!r}")
    return broker


def _broker(cluster: Cluster, broker_id: int) -> Broker:
    if broker_id not in cluster.broker_ids:
        known = ", ".join(f"broker-{known}" for known in cluster.broker_ids)
        raise LabError(f"unknown broker-{broker_id} (brokers: {known})")
    return cluster.broker(broker_id)
