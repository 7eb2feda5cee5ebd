"""`jbodlab list`: every cluster of this user, and what is broken in it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from fault_injection.journal import read_faults
from jbodlab import lab_state
from jbodlab.cli.output import Output, table
from lab.commands import clusters
from lab.interrupts import Interrupts
from lab.state_files import StateFiles


def run(_: Namespace, output: Output, __: Interrupts) -> int:
    """List them; returns the exit code."""
    files = StateFiles.open()
    found = [_described(files, name) for name in files.names()]
    columns = ("cluster", "servers", "running", "open faults", "bootstrap servers")
    keys = ("name", "nodes", "running", "open_faults", "bootstrap")
    rows = [[one[key] for key in keys] for one in found]
    output.result(found, table(columns, rows) if found else "no clusters")
    return 0


def _described(files: StateFiles, name: str) -> dict[str, Any]:
    state = clusters.read(files, name)
    root = Path(state.root)
    faults = read_faults(lab_state.journal_file(files.directory))
    return {
        "name": name,
        "bootstrap": state.bootstrap,
        "root": state.root,
        "nodes": len(state.nodes),
        "running": len(lab_state.running_nodes(state)),
        "open_faults": sum(root in fault.path.parents for fault in faults),
    }
