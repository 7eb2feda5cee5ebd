"""Runs that are kept: one small JSON file for each engine, plan and number of the run.

A file is written beside its place and renamed, so there is a whole run or none.
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
_AGAIN = (NOT_RUN, INCONCLUSIVE)
"""Verdicts of runs that prove nothing."""
_OBJECTIVE = ("text", "holds", "value", "measured", "severity")

Kept = Mapping[str, Any]
"""Facts that are kept of a run.

`plan`, `engine` and `number` name it. `title` is that of the plan, `verdict` and `reason` are those
of the run, `objectives` as in `result.json`. `began` is an instant, `took_s` seconds; `machine` and
`commit` say where and of what. A run that did not begin has the verdict `NOT_RUN`, or `REFUSED`
where the engine refuses what the plan asks for; no objectives, and a reason.
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


def keep(file: Path, run: Kept) -> None:
    """Write a run; a process that is killed leaves the former file or the whole new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as out:
        out.write(json.dumps(run, separators=(",", ":")) + "\n")
        out.flush()
        os.fsync(out.fileno())
    beside.replace(file)


def is_done(file: Path) -> bool:
    """Return whether a kept run is not to be repeated; one that proves nothing is tried again."""
    return file.exists() and json.loads(file.read_text("utf-8"))["verdict"] not in _AGAIN


def read(folder: Path) -> list[Kept]:
    """Return all runs that a folder keeps, by plan, then engine, then number."""
    found: Iterable[Kept] = (
        json.loads(file.read_text("utf-8")) for file in folder.glob("*/*.json")
    )
    return sorted(found, key=lambda run: (run["plan"], _order(run["engine"]), run["number"]))


def _order(engine: str) -> tuple[bool, list[int], str]:
    """Return the order of engines: ours first, then the releases from the oldest on."""
    return ":" in engine, [int(part) for part in re.findall("[0-9]+", engine)], engine
