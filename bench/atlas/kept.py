"""Runs that are kept: one small JSON file for each engine, plan and number of the run.

A file is written beside its place and renamed, so there is a whole run or none. A cell is an engine
and a plan. All runs of a cell are of one series, for a spread over changes of the code is none: the
first run of a new series takes the place of all former ones.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lab.cluster.engine import Engine

FOLDER = Path(__file__).parent / "runs"
NOT_RUN, REFUSED, INCONCLUSIVE = "NOT RUN", "REFUSED", "INCONCLUSIVE"
_OBJECTIVE = ("text", "holds", "value", "measured", "severity")

Kept = Mapping[str, Any]
"""Facts that are kept of a run.

`plan`, `engine` and `number` name it, `series` is the instant in which its series was begun.
`load` is the load of the machine in the minute before it. `title` is that of the plan, `verdict`
and `reason` are those of the run, `objectives` as in `result.json`. `began` is an instant, `took_s`
seconds; `machine` and `commit` say where and of what. A run that did not begin has the verdict
`NOT_RUN`, or `REFUSED` where the engine refuses what the plan asks for; no objectives, and a
reason.
"""


def of_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a `result.json`."""
    missed, doubts = result["missed"], result["doubts"]
    reasons = [*doubts, *missed] if result["verdict"] == INCONCLUSIVE else [*missed, *doubts]
    return {
        "title": result["name"],
        "verdict": result["verdict"],
        "reason": reasons[0][:300] if reasons else "",
        "objectives": [{key: held[key] for key in _OBJECTIVE} for held in result["objectives"]],
        "machine": result["surroundings"].get("machine", ""),
        "began": result["surroundings"].get("began", ""),
    }


def file_of(folder: Path, engine: str, plan: str, number: int) -> Path:
    """Return the file of a run."""
    return folder / Engine.written_down(engine).folder_name / f"{plan}-{number}.json"


def keep(folder: Path, run: Kept) -> None:
    """Write a run; a process that is killed leaves the former file or the whole new one.

    Runs of the same plan on the same engine go if they are of another series.
    """
    file = file_of(folder, run["engine"], run["plan"], run["number"])
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as out:
        out.write(json.dumps(run, separators=(",", ":")) + "\n")
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)
    for other in file.parent.glob("*.json"):
        former = json.loads(other.read_text("utf-8"))
        if former["plan"] == run["plan"] and former["series"] != run["series"]:
            other.unlink()


def read(folder: Path) -> list[Kept]:
    """Return all runs that a folder keeps, by plan, then engine, then number."""
    found: Iterable[Kept] = (
        json.loads(file.read_text("utf-8")) for file in folder.glob("*/*.json")
    )
    return sorted(found, key=lambda run: (run["plan"], _order(run["engine"]), run["number"]))


def _order(engine: str) -> tuple[bool, list[int], str]:
    """Return the order of engines: ours first, then the releases from the oldest on."""
    return ":" in engine, [int(part) for part in re.findall("[0-9]+", engine)], engine
