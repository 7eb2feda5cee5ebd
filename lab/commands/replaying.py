"""`jbodlab replay`: tables and page of a running cluster's metadata log, kept when it goes down."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from lab import replay
from lab.commands import clusters
from lab.errors import LabError
from lab.interrupts import Interrupts
from lab.results import keep_metadata, make_folder
from lab.state_files import StateFiles

PAGE = "report.html"


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Replay it; returns the exit code."""
    files = StateFiles.open()
    state = clusters.read(files, options.name)
    replay.check_requirements()
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    wanted = options.output or files.directory / "replays" / f"{options.name}-{stamp}"
    results = make_folder(Path(wanted))
    keep_metadata(state, results)
    results.logs.mkdir()
    problem = replay.run(results, Path(state.root), files.directory, interrupts)
    if problem:
        raise LabError(problem)
    found = {
        "tables": str(results.tables),
        "report": str(results.report),
        "page": str(results.tables / PAGE),
    }
    text = "\n".join(f"{name:<7} {path}" for name, path in found.items())
    clusters.show(options.json, found, text)
    return 0
