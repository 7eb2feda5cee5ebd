"""Inputs of each cluster's tables, so that an unchanged cluster is left alone.

`OUTPUT/_state/cluster=LABEL/inputs.json` says which copies of a log a run has read, by size and
time of their files, with the options, the report and the figures of the start page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from analytics.page.start_page import ClusterSummary
from analytics.read.log_copies import LogCopy
from analytics.store.store import Store
from analytics.tables.table import CLUSTER

FORMAT = 9
"""Of the file; one of another format is not read."""

STATE = "_state"
_INPUTS = "inputs.json"


def load_inputs(output: Store, cluster: str) -> dict[str, Any] | None:
    """Return what a run was of: `copies`, what was `asked`, its `report` and `summary`, or None."""
    try:
        found = json.loads(output.read(f"{folder_of(cluster)}/{_INPUTS}"))
        if found.pop("format") != FORMAT:
            return None
        found["copies"] = [
            LogCopy(**{**one, "stamp": tuple((n, s, c) for n, s, c in one["stamp"])})
            for one in found["copies"]
        ]
        found["summary"] = ClusterSummary(**found["summary"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return dict(found)


def save_inputs(
    scratch: Store,
    cluster: str,
    copies: Sequence[LogCopy],
    asked: object,
    report: str,
    summary: ClusterSummary,
) -> None:
    """Write what a run was of, its report, and what the start page shows of it."""
    found = {
        "format": FORMAT,
        "copies": [asdict(copy) for copy in copies],
        "asked": asked,
        "report": report,
        "summary": asdict(summary),
    }
    scratch.make_folder(folder_of(cluster))
    scratch.write(f"{folder_of(cluster)}/{_INPUTS}", json.dumps(found, indent=1).encode())


def folder_of(cluster: str) -> str:
    """Return the folder of what is known of a cluster."""
    return f"{STATE}/{CLUSTER}={cluster}"
