"""`jbodlab controllers`: those of a cluster are listed, come, go, get a new disk and hand over."""

from __future__ import annotations

import functools
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from jbodlab.cli.output import Output, table
from jbodlab.vocabulary import kafka_uuid
from lab import opened
from lab.cluster import Cluster, Node, NotInTimeError, membership
from lab.errors import LabError
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles

if TYPE_CHECKING:
    from jbodlab.cli.results import Controller
    from jbodlab.kafka_admin.quorum import Quorum

Command = Callable[[Namespace, Output, Interrupts], int]


def list_all(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """List the controllers as the active one describes them; returns the exit code."""
    cluster = opened.opened(StateFiles.open(), options.cluster, interrupts)
    quorum = cluster.quorum()
    found = [_described(node, quorum) for node in cluster.controllers]
    columns = ("controller", "address", "role", "log end", "directory id")
    rows = [
        (
            one["id"],
            one["address"],
            one["role"] or ("does not run" if not one["running"] else "unknown"),
            "-" if one["end_offset"] is None else one["end_offset"],
            one["directory_id"] or "-",
        )
        for one in found
    ]
    output.result(found, table(columns, rows))
    return 0


def _described(node: Node, quorum: Quorum | None) -> Controller:
    end_offset, directory_id = -1, None
    if quorum is not None:
        end_offset = quorum.end_offsets.get(node.id, -1)
        directory_id = quorum.directory_ids.get(node.id)
    is_told = quorum is not None and node.is_running
    return {
        "id": node.id,
        "address": node.address,
        "role": quorum.role(node.id) if quorum is not None and is_told else None,
        "end_offset": None if end_offset < 0 else end_offset,
        "directory_id": None if directory_id is None else kafka_uuid.to_text(directory_id),
        "running": node.is_running,
    }


def _changing(change: Callable[[Cluster, Namespace], dict[str, str]]) -> Command:
    """Return the command that changes the controllers so, and prints a text for each of them."""

    @functools.wraps(change)
    def carry_out(options: Namespace, output: Output, interrupts: Interrupts) -> int:
        files = StateFiles.open()
        with files.lock(options.cluster):
            cluster = opened.opened(files, options.cluster, interrupts)
            try:
                done = change(cluster, options)
            except NotInTimeError as error:
                raise LabError(str(error).splitlines()[0]) from error
        output.texts(done)
        return 0

    return carry_out


@_changing
def add(cluster: Cluster, _: Namespace) -> dict[str, str]:
    """Start one more controller."""
    node = membership.add(cluster)
    return {node.name: f"added, pid {node.pid}"}


@_changing
def remove(cluster: Cluster, options: Namespace) -> dict[str, str]:
    """End a controller for good."""
    node = _controller(cluster, options.controller)
    membership.remove(cluster, node)
    return {node.name: "removed"}


@_changing
def replace(cluster: Cluster, options: Namespace) -> dict[str, str]:
    """Give a controller an empty directory in place of its own."""
    node = _controller(cluster, options.controller)
    directory_id = membership.replace_disk(cluster, node)
    return {node.name: f"has the empty directory {directory_id}, pid {node.pid}"}


@_changing
def transfer(cluster: Cluster, options: Namespace) -> dict[str, str]:
    """Have another controller be active."""
    node = _controller(cluster, options.controller)
    epoch = membership.transfer(cluster, node)
    return {node.name: f"active in epoch {epoch}"}


def _controller(cluster: Cluster, word: str) -> Node:
    for node in cluster.controllers:
        if word in (node.name, str(node.id)):
            return node
    names = ", ".join(node.name for node in cluster.controllers)
    raise LabError(f"no controller {word}, only {names}")
