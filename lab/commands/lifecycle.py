"""`jbodlab start`, `stop`, `kill`, `restart`: single servers of a cluster that stays."""

from __future__ import annotations

import argparse

from lab.cluster import Broker, Cluster, Node, NotInTimeError
from lab.commands import clusters
from lab.errors import LabError
from lab.interrupts import Interrupts
from lab.state_files import StateFiles


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Carry it out; returns the exit code."""
    files = StateFiles.open()
    with files.lock(options.name):
        cluster = clusters.opened(files, options.name, interrupts)
        chosen = clusters.nodes(cluster, options.nodes)
        try:
            done = {_name(node): _act(options.command, node) for node in _ordered(options, chosen)}
            if options.command in ("start", "restart") and not options.no_wait:
                _wait_served(cluster, chosen)
        except NotInTimeError as error:
            raise LabError(str(error).splitlines()[0]) from error
    text = "\n".join(f"{name} {what}" for name, what in done.items())
    clusters.show(options.json, done, text)
    return 0


def _ordered(options: argparse.Namespace, chosen: list[Node]) -> list[Node]:
    """Brokers first when they end: they hand their leadership over with the controller's help."""
    is_ending = options.command in ("stop", "kill")
    return sorted(chosen, key=lambda node: isinstance(node, Broker) != is_ending)


def _act(command: str, node: Node) -> str:
    is_running = node.is_running
    if command == "start":
        if is_running:
            return f"runs already, pid {node.pid}"
        node.start()
        return f"started, pid {node.pid}"
    if not is_running and command != "restart":
        return "does not run"
    if command == "kill":
        node.kill()
        return "killed"
    code = node.stop() if is_running else 0
    if command == "stop":
        return "ended" if code in (0, -1) else f"ended with exit code {code}"
    node.start()
    return f"restarted, pid {node.pid}"


def _wait_served(cluster: Cluster, chosen: list[Node]) -> None:
    """Wait until the brokers that run answer; those that do not run stay as they are."""
    brokers = [node for node in chosen if isinstance(node, Broker)]
    if brokers:
        cluster.wait_served(*brokers)


def _name(node: Node) -> str:
    return f"{node.state.role}-{node.id}"
