"""A cluster that is up, and the words for its brokers, its directories and the faults of these."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fault_injection import kinds, targets
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Target
from jbodlab.cli.lab_state import ClusterState
from lab import up_and_down
from lab.cluster import Broker, Cluster, LogDir, Node
from lab.errors import LabError
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles

WHOLE = "cluster"
"""The word for a cluster as a whole."""
OF_BROKERS = frozenset({"swapped", "twin"})
"""The faults that only brokers have: those of two directories."""
_TARGET = re.compile(r"(?:(broker|controller)-)?(\d+)(?:/(?:dir-)?(\d+))?")
_FIRST = re.compile(r"controller(?!-)")
"""The word for the first controller, which most clusters have no other than."""


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
    for node in cluster.nodes.values():
        node.follow_again()
    return cluster


def nodes(cluster: Cluster, words: Sequence[str]) -> list[Node]:
    """Return the nodes that words name, the controller first.

    Raises:
        LabError: a word names none.
    """
    if not words or "all" in words:
        return list(cluster.nodes.values())
    return [_whole(cluster, word) for word in dict.fromkeys(words)]


def target(cluster: Cluster, word: str) -> tuple[Node, LogDir | None]:
    """Return the broker or controller, and the directory if one is named.

    Raises:
        LabError: there is none such.
    """
    match = _TARGET.fullmatch(_FIRST.sub(f"controller-{cluster.controller.id}", word, count=1))
    if match is None:
        raise LabError(
            "expected a target such as broker-1, broker-1/2 or "
            f"controller-{cluster.controller.id}/1, got {word!r}"
        )
    node = _node(cluster, match[1] or "broker", int(match[2]))
    if match[3] is None:
        return node, None
    number = int(match[3])
    if not 1 <= number <= len(node.log_dirs):
        raise LabError(f"{node.name} has the directories 1 to {len(node.log_dirs)}, not {number}")
    return node, node.log_dir(number)


def described(
    cluster: Cluster, kind: str, word: str, words: Mapping[str, Any]
) -> tuple[FaultSpec, Target]:
    """Return the fault of a kind that words describe, and its target.

    Raises:
        LabError, FaultError: the words are wrong.
    """
    told = dict(words)
    if kinds.kind_named(kind).scope is kinds.Scope.CLUSTER:
        if word != WHOLE:
            raise LabError(f"{kind} is a fault of the whole cluster: name {WHOLE}, not {word}")
        return kinds.spec(kind, told), cluster.target()
    node, directory = target(cluster, word)
    if not isinstance(node, Broker) and kind in OF_BROKERS:
        raise LabError(f"{kind} is a fault of brokers, not of {node.name}")
    other = told.get("with")
    if isinstance(other, str) and (other.isdecimal() or other.startswith("broker-")):
        told["with"] = str(_other_path(cluster, node, other))
    spec = kinds.spec(kind, told)
    return spec, node.target() if directory is None else directory.target()


def _other_path(cluster: Cluster, broker: Node, word: str) -> Path:
    """Return the path of a second directory of a broker: 3, or broker-1/3."""
    owner, directory = target(cluster, f"{broker.name}/{word}" if word.isdecimal() else word)
    if directory is None:
        raise LabError(f"expected a directory such as {broker.name}/2, got {word!r}")
    if owner.id != broker.id:
        raise LabError(f"expected a directory of {broker.name}, got {word!r}")
    return directory.path


def _whole(cluster: Cluster, word: str) -> Node:
    node, directory = target(cluster, word)
    if directory is not None:
        raise LabError(f"expected a broker or controller, got the directory {word!r}")
    return node


def _node(cluster: Cluster, role: str, node_id: int) -> Node:
    among: Sequence[Node] = cluster.brokers if role == "broker" else cluster.controllers
    for node in among:
        if node.id == node_id:
            return node
    known = ", ".join(f"{role}-{node.id}" for node in among)
    raise LabError(f"unknown {role}-{node_id} ({role}s: {known})")
