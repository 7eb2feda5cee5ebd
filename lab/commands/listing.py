"""`jbodlab list`: every cluster of this user, and what is broken in it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fault_injection.journal import read_faults
from jbodlab import lab_state
from lab.commands import clusters
from lab.interrupts import Interrupts
from lab.state_files import StateFiles


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Print them; returns the exit code."""
    files = StateFiles.open()
    found = [_described(files, name) for name in files.names()]
    lines = [
        f"{one['name']:<16} {one['running']} of {one['nodes']} servers run, "
        f"{one['open_faults']} open faults  {one['bootstrap']}"
        for one in found
    ]
    clusters.show(options.json, found, "\n".join(lines) or "no cluster is up")
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
