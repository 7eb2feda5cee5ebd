"""`python -m bench.atlas`: run plans on engines, keep each run, and write the pages from them.

The runs of one making of the atlas are a series. The command goes on with the last series, from
the first run that is not kept; where nothing of what was asked for is left in it, it begins
another. A run that was ended is repeated whole, and so is one that left no result.

Exit codes: 0 the pages are written, whatever the verdicts; 1 an engine or a plan is wrong; 2 a
wrong call; 130 interrupted, after the run in progress was reverted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.atlas import kept, pages
from bench.atlas.bugs import BUGS
from bench.atlas.kept import Kept
from jbodlab.vocabulary.durations import duration_s, duration_text
from lab.cluster import kafka_servers
from lab.cluster.engine import Engine
from lab.errors import LabError
from lab.plan import plans

ROOT = Path(__file__).parents[2]
MARKDOWN = ROOT / "docs" / "atlas.md"
HTML = ROOT / "build" / "atlas.html"
ENGINES = ("jbodlab", "kafka:3.9.1", "kafka:4.1.1", "kafka:4.3.1")
RUNS = 3
RUN_MAX_S = 420.0
REVERT_MAX_S = 90.0

Named = tuple[str, str, int]
"""Engine, plan and number of a run."""


def main() -> int:
    """Run what is not kept yet, then write the pages; returns the exit code."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shipped = plans.shipped()
    for plan in options.plan:
        if plan not in shipped:
            print(f"bench.atlas: expected a shipped plan, got {plan!r}", file=sys.stderr)
            return 1
    try:
        named = [str(Engine.parse(text)) for text in options.engine]
        engines = {plan: named or engines_of(plan) for plan in options.plan or shipped}
        former = kept.read(options.runs)
        asked = order(engines, options.repeat)
        series, wanted = ("", []) if options.render else left(former, asked)
        # Now, for it may take longer than a run may.
        kafka_servers.fetch(Engine.parse(name) for name in {engine for engine, _, _ in wanted})
    except LabError as error:
        print(f"bench.atlas: {error}", file=sys.stderr)
        return 1
    until = time.monotonic() + options.budget if options.budget is not None else None
    if wanted:
        about = duration_text(60 * max(1, round(expected_s(former, wanted) / 60)))
        print(f"series {series}: {len(wanted)} runs are left, about {about}", flush=True)
    try:
        for number, (engine, plan, run) in enumerate(wanted, start=1):
            if until is not None and time.monotonic() >= until:
                print(f"time is up: {len(wanted) - number + 1} runs are left")
                break
            load = round(os.getloadavg()[0], 1)
            done = {**rehearsed(engine, plan, run), "series": series, "load": load}
            kept.keep(options.runs, done)
            shown = f"{done['verdict']}  {done['took_s']:.0f} s  {done['reason']}".rstrip()
            print(f"{number}/{len(wanted)}  {plan} on {engine}, run {run}: {shown}", flush=True)
    except KeyboardInterrupt:
        return 130
    finally:
        found = kept.read(options.runs)
        options.markdown.write_text(pages.markdown(found, BUGS), "utf-8")
        if found:
            options.html.parent.mkdir(parents=True, exist_ok=True)
            options.html.write_text(pages.page(found, BUGS), "utf-8")
    print(options.markdown)
    return 0


def engines_of(plan: str) -> list[str]:
    """Return the engines that a plan runs on where none is named: those of its bug are added."""
    own = [engine for bug in BUGS if bug.plan == plan for engine in bug.engines]
    return list(dict.fromkeys([*ENGINES, *own]))


def order(engines: Mapping[str, Sequence[str]], repeat: int) -> Iterator[Named]:
    """Yield engine, plan and number of each run: all plans on their engines, then all again.

    A time budget cuts repeats, not plans or engines; plans that show a known bug come last.
    """
    bugs = {bug.plan for bug in BUGS if not bug.why}
    for number in range(1, repeat + 1):
        for plan in sorted(engines, key=lambda plan: plan in bugs):
            for engine in engines[plan]:
                yield engine, plan, number


def left(former: Sequence[Kept], asked: Iterable[Named]) -> tuple[str, list[Named]]:
    """Return the series to go on with, and its runs that are left.

    Args:
        former: Runs that are kept.
        asked: Runs that the series should have, in their order.

    Returns:
        The last series, without its runs that left a result; a new one with all runs where each
        has been tried in the last one.
    """
    asked = list(asked)
    last = max((run["series"] for run in former), default="")
    tried = {
        (run["engine"], run["plan"], run["number"]): run["verdict"]
        for run in former
        if run["series"] == last
    }
    if last and not tried.keys() >= set(asked):
        return last, [one for one in asked if tried.get(one, kept.NOT_RUN) == kept.NOT_RUN]
    return datetime.now(UTC).isoformat(timespec="seconds"), asked


def expected_s(former: Sequence[Kept], wanted: Iterable[Named]) -> float:
    """Return how many seconds runs will take, by former ones of the plan on the engine, or at all.

    A plan that was never run counts as one of middle length.
    """
    cells: dict[tuple[str, str], list[float]] = {}
    for run in former:
        for engine in (run["engine"], ""):
            cells.setdefault((engine, run["plan"]), []).append(run["took_s"])
    middle = [median([run["took_s"] for run in former])] if former else [60.0]
    return sum(
        median(cells.get((engine, plan)) or cells.get(("", plan)) or middle)
        for engine, plan, _ in wanted
    )


def rehearsed(engine: str, plan: str, number: int) -> dict[str, Any]:
    """Run a plan once in a process of its own, and return what is kept of it."""
    began = time.monotonic()
    named = {"plan": plan, "engine": engine, "number": number, "commit": _commit()}
    with tempfile.TemporaryDirectory(prefix="jbodlab-atlas-") as folder:
        command = [sys.executable, "-m", "jbodlab", "rehearse", plan, "--engine", engine]
        reason = _run([*command, "--results", folder], Path(folder))
        took = {"took_s": round(time.monotonic() - began, 1)}
        try:
            found = json.loads((Path(folder) / "result.json").read_text("utf-8"))
            return {**named, **kept.of_result(found), **took}
        except (OSError, ValueError):
            none = {"title": "", "objectives": [], "machine": "", "began": ""}
            verdict = kept.REFUSED if _refuses(plan, reason) else kept.NOT_RUN
            return {**named, **none, "verdict": verdict, "reason": reason, **took}


def _refuses(plan: str, reason: str) -> bool:
    """Return whether a reason is the refusal by which a release fixed the bug of a plan."""
    return any(bug.refusal and bug.refusal in reason for bug in BUGS if bug.plan == plan)


def _run(command: Sequence[str], folder: Path) -> str:
    """Run a command to its end or its deadline; returns its last line on stderr."""
    with (folder / "said").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            # Ctrl-C reaches it once, by `_end`: a second one would cut its healing off.
            process_group=0,
        )
        reason = ""
        try:
            process.wait(RUN_MAX_S)
        except subprocess.TimeoutExpired:
            reason = f"not ended after {RUN_MAX_S:.0f} s"
        finally:
            _end(process)
        said.seek(0)
        lines = [line.strip() for line in said if line.strip()]
        return (reason or (lines[-1] if lines else f"exit code {process.returncode}"))[:300]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let a run revert its faults and remove its cluster; kill it only where it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(REVERT_MAX_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    return done.stdout.strip() or "unknown"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.atlas", description=__doc__)
    parser.add_argument(
        "--engine",
        action="append",
        default=[],
        help=f"default: {', '.join(ENGINES)}, and the releases of known bugs for their plans",
    )
    parser.add_argument("--plan", action="append", default=[], help="default: all shipped plans")
    parser.add_argument("--repeat", type=int, default=RUNS, help=f"runs of each cell, {RUNS}")
    parser.add_argument("--budget", type=_seconds, help="no run begins after so long, as 30m")
    parser.add_argument("--runs", type=Path, default=kept.FOLDER, help="folder of kept runs")
    parser.add_argument("--markdown", type=Path, default=MARKDOWN)
    parser.add_argument("--html", type=Path, default=HTML)
    parser.add_argument("--render", action="store_true", help="run nothing, write the pages")
    return parser.parse_args()


def _seconds(text: str) -> float:
    try:
        return duration_s(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
