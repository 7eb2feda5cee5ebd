"""One run of a plan, or several, with all that is kept of them."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from jbodlab.vocabulary.durations import duration_text
from lab.cluster.engine import OWN, Engine
from lab.machine.folders import make_folder, remove_folder
from lab.machine.interrupts import Interrupts
from lab.plan.plan import Attach, Plan
from lab.rehearsal import result
from lab.rehearsal.engine import Rehearsal
from lab.rehearsal.facts import Facts
from lab.rehearsal.judgement import Judgement, judge
from lab.rehearsal.target_cluster import TargetCluster, attached, started
from lab.rehearsal.telling import Tell
from lab.watch.events import Event

if TYPE_CHECKING:
    from jbodlab.cli.results import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One run: what was seen, its verdict, and the same as JSON values."""

    facts: Facts
    judgement: Judgement
    json: Run


def run(
    plan: Plan,
    folder: Path,
    tell: Tell,
    *,
    engine: Engine = OWN,
    is_mine: bool = False,
    interrupts: Interrupts | None = None,
) -> Done:
    """Run a plan once on the cluster that it names, and keep the results in a folder.

    Args:
        plan: The plan.
        folder: Gets `result.json`, `events.jsonl` and what clients wrote; made if missing.
        tell: Is told of each step.
        engine: Engine that the nodes run.
        is_mine: Whether an attached cluster may be broken wherever it is.
        interrupts: Held back around what must not be interrupted.

    Raises:
        LabError: it could not be carried through.
    """
    root = make_folder()
    try:
        held_back = interrupts or Interrupts()
        if isinstance(plan.cluster, Attach):
            target = attached(plan, is_mine=is_mine)
        else:
            target = started(plan, root / "cluster", held_back, engine)
        with target as target_cluster:
            return perform(plan, target_cluster, folder, tell)
    finally:
        remove_folder(root)


def perform(plan: Plan, target_cluster: TargetCluster, folder: Path, tell: Tell) -> Done:
    """Run a plan once on a cluster that serves; otherwise as `run`."""
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / "clients"
    # Files of an earlier run would be taken for those of this one.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    began = datetime.now(UTC)
    for name, why in target_cluster.not_measured.items():
        text = f"not measured: {name}: {why}"
        tell(Event(t_ns=time.monotonic_ns(), source="action", kind="not-measured", text=text))
    facts = Rehearsal(plan, target_cluster, work, tell).run()
    mechanisms = sorted({fault.mechanism for fault in facts.faults.values() if fault.mechanism})
    surroundings = {
        **target_cluster.versions,
        "began": began.isoformat(timespec="seconds"),
        "mechanism": ", ".join(mechanisms),
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "noise": duration_text(facts.noise_ns / 1e9),
    }
    judgement = judge(plan, facts)
    found = result.to_json(plan, facts, judgement, surroundings)
    offset_ns = time.time_ns() - time.monotonic_ns()
    with (folder / "events.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in result.event_lines(facts, offset_ns))
    (folder / "result.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return Done(facts=facts, judgement=judgement, json=found)
