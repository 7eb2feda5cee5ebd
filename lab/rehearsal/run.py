"""One run of a plan, or several, with all that is kept of them."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.cluster.folders import make_folder, remove_folder
from lab.cluster.kafka_servers import KafkaServers
from lab.errors import LabError
from lab.interrupts import Interrupts
from lab.rehearsal import result
from lab.rehearsal.engine import Rehearsal, Tell
from lab.rehearsal.judgement import Judgement, judge
from lab.rehearsal.plan import Attach, Plan
from lab.rehearsal.target_cluster import TargetCluster, attached, started


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One run: its verdict, and the same as JSON values."""

    judgement: Judgement
    json: dict[str, Any]


def run(
    plan: Plan,
    folder: Path,
    tell: Tell,
    *,
    kafka: bool = False,
    is_mine: bool = False,
    interrupts: Interrupts | None = None,
) -> Done:
    """Run a plan once and keep what came of it in a folder.

    Args:
        plan: What shall happen.
        folder: Gets `result.json`, `events.jsonl` and what clients wrote; made if missing.
        tell: Told of each step.
        kafka: Whether the cluster is one of Apache Kafka.
        is_mine: Whether an attached cluster may be broken wherever it is.
        interrupts: Held back around what must not be interrupted.

    Raises:
        LabError: it could not be carried through.
    """
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / "clients"
    # What clients of a former run wrote there would be taken for what those of this one did.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    began = datetime.now(UTC)
    root = make_folder()
    try:
        held_back = interrupts or Interrupts()
        with _cluster(plan, root, held_back, kafka=kafka, is_mine=is_mine) as target_cluster:
            for name, why in target_cluster.not_measured.items():
                tell(0, f"not measured: {name}: {why}")
            facts = Rehearsal(plan, target_cluster, work, tell).run()
            mechanisms = sorted({f.mechanism for f in facts.faults.values() if f.mechanism})
            surroundings = {
                **target_cluster.versions,
                "began": began.isoformat(timespec="seconds"),
                "mechanism": ", ".join(mechanisms),
                "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores",
                "python": platform.python_version(),
                "noise": f"{facts.noise_ns / 1e6:.0f} ms",
            }
    finally:
        remove_folder(root)
    judgement = judge(plan, facts)
    found = result.to_json(plan, facts, judgement, surroundings)
    offset_ns = time.time_ns() - time.monotonic_ns()
    with (folder / "events.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in result.event_lines(facts, offset_ns))
    (folder / "result.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return Done(judgement=judgement, json=found)


def _cluster(
    plan: Plan, root: Path, interrupts: Interrupts, *, kafka: bool, is_mine: bool
) -> AbstractContextManager[TargetCluster]:
    if isinstance(plan.cluster, Attach):
        if kafka:
            raise LabError("a plan that attaches to a cluster names its cluster itself")
        return attached(plan, is_mine=is_mine)
    if kafka:
        servers = KafkaServers()
        version = f"Apache Kafka {servers.release}"
        return started(plan, root / "cluster", interrupts, servers, version)
    return started(plan, root / "cluster", interrupts)
