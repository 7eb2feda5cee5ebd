"""`jbodlab status`: the state of a cluster."""

from __future__ import annotations

from argparse import Namespace

from jbodlab import lab_state
from jbodlab.cli.output import Output
from lab import status
from lab.commands import clusters
from lab.interrupts import Interrupts
from lab.state_files import StateFiles


def run(options: Namespace, output: Output, _: Interrupts) -> int:
    """Show it; returns 1 if something is missing, else 0."""
    files = StateFiles.open()
    state = clusters.read(files, options.cluster)
    found = status.look(state, lab_state.journal_file(files.directory))
    output.result(found.to_json(), found.text())
    return 0 if found.is_healthy else 1
