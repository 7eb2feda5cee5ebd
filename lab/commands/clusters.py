"""`jbodlab list` and `status`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fault_injection.journal import read_faults
from jbodlab.cli import lab_state
from jbodlab.cli.output import Output, table
from lab.machine.interrupts import Interrupts
from lab.opened import read
from lab.state_files import StateFiles

if TYPE_CHECKING:
    from jbodlab.cli.results import ListedCluster


def list_all(_: Namespace, output: Output, __: Interrupts) -> int:
    """List the clusters of this user, and what is broken in each; returns the exit code."""
    files = StateFiles.open()
    found = [_described(files, name) for name in files.names()]
    columns = ("cluster", "servers", "running", "open faults", "bootstrap servers")
    rows = [
        (one["name"], one["nodes"], one["running"], one["open_faults"], one["bootstrap"])
        for one in found
    ]
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


def _described(files: StateFiles, name: str) -> ListedCluster:
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
