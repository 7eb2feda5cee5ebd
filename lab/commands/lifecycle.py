"""`jbodlab start`, `stop`, `kill`, `restart`: single servers of a cluster that stays."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from jbodlab.cli.output import Output
from lab import opened
from lab.cluster import Broker, Node, NotInTimeError
from lab.errors import LabError
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles


def _carry_out(command: str, options: Namespace, output: Output, interrupts: Interrupts) -> int:
    files = StateFiles.open()
    with files.lock(options.cluster):
        cluster = opened.opened(files, options.cluster, interrupts)
        chosen = opened.nodes(cluster, options.nodes)
        try:
            done = {node.name: _act(command, node) for node in _ordered(command, chosen)}
            # Those that do not run stay as they are.
            brokers = [node for node in chosen if isinstance(node, Broker)]
            if command in ("start", "restart") and not options.no_wait and brokers:
                cluster.wait_served(*brokers)
        except NotInTimeError as error:
            raise LabError(str(error).splitlines()[0]) from error
    output.texts(done)
    return 0


def _ordered(command: str, chosen: list[Node]) -> list[Node]:
    """Brokers first when they end: they hand their leadership over with the controller's help."""
    is_ending = command in ("stop", "kill")
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


start, stop, kill, restart = (
    partial(_carry_out, command) for command in ("start", "stop", "kill", "restart")
)
