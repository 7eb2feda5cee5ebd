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
_TARGET = re.compile(r"(?:broker-)?(\d+)(?:/(?:dir-)?(\d+))?")


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
    broker, directory = target(cluster, word)
    other = told.get("with")
    if isinstance(other, str) and (other.isdecimal() or other.startswith("broker-")):
        told["with"] = str(_other_path(cluster, broker, other))
    spec = kinds.spec(kind, told)
    return spec, broker.target() if directory is None else directory.target()


def _other_path(cluster: Cluster, broker: Broker, word: str) -> Path:
    """Return the path of a second directory of a broker: 3, or broker-1/3."""
    owner, directory = target(cluster, f"{broker.id}/{word}" if word.isdecimal() else word)
    if directory is None:
        raise LabError(f"expected a directory such as broker-{broker.id}/2, got {word!r}")
    if owner.id != broker.id:
        raise LabError(f"expected a directory of broker-{broker.id}, got {word!r}")
    return directory.path


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
