"""The command line of the simulation; each history runs in a process of its own."""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import json
import multiprocessing
import os
import resource
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.simulation import faults, history, taps
from tests.simulation.coverage import Coverage
from tests.simulation.history import Outcome
from tests.simulation.plan import FEATURES, Plan, draw, read_plan
from tests.simulation.shrink import Failure, Shrinker

ROOT = Path(__file__).parents[2]
FORK = multiprocessing.get_context("fork")
HISTORY_CPU_S = 120
"""Of a processor, in which a history has ended whatever else the machine does."""
END_S = 1_700.0
"""In which many histories have ended, on a machine that gives them a twentieth of a processor."""
WARM_UP_SEED = 8
"""Of a short history, in which much happens."""


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns 1 if a checker found something."""
    options = _parser().parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") is None:
        # Sets of texts are gone through in an order that must be the same in each process.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    if options.plan is not None or options.seed is not None:
        return _one(options)
    return _many(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default="1..100", help="FIRST..LAST")
    parser.add_argument("--seed", type=int, help="one history, with what happened in it")
    parser.add_argument("--plan", type=Path, help="one history from a plan file")
    parser.add_argument("--jobs", type=int, default=1, help="histories at the same time")
    parser.add_argument("--controllers", type=int, help="so many; drawn by default")
    parser.add_argument("--wild", action="store_true", help="also what may lose records")
    parser.add_argument("--trace", action="store_true", help="print every step")
    parser.add_argument("--traces", action="store_true", help="print what each seed came to")
    parser.add_argument("--first", nargs="*", default=(), help="end at the first of these checkers")
    steered = f"draw faults of these, and options with these: {', '.join(FEATURES)}"
    parser.add_argument("--steer", nargs="*", default=(), help=steered)
    parser.add_argument("--coverage", type=Path, help="keep a map; steer at what it lacks")
    parser.add_argument("--failures", type=Path, help="keep the plan of each failure in here")
    parser.add_argument("--until", type=int, default=0, help="end at this step")
    parser.add_argument("--shrink", type=Path, help="write the smallest plan that fails alike")
    return parser


def _seeds(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def plan_of(
    seed: int,
    is_strict: bool = True,
    steered_at: Collection[str] = (),
    controllers: int | None = None,
) -> Plan:
    return draw(
        seed,
        faults.WEIGHTS,
        is_strict=is_strict,
        steered_at=steered_at,
        controllers=controllers,
    )


def _one(options: argparse.Namespace) -> int:
    drawn = functools.partial(
        plan_of, options.seed, not options.wild, options.steer, options.controllers
    )
    plan = read_plan(options.plan) if options.plan else drawn()
    if options.shrink:
        small = Shrinker(_failure).shrink(plan)
        options.shrink.write_text(small.to_text())
        return int(_failure(small) is not None)

    _warm_up()
    outcome = history.run(plan, until_step=options.until, is_traced=options.trace)
    print(plan.to_text())
    for at, process, what in outcome.notes:
        print(f"{at:10.4f} {process:12s} {what}")
    print(outcome.trace, outcome.steps, f"{outcome.virtual_s:.1f} s", dict(outcome.seen))
    print(outcome.violation)
    if outcome.violation is not None and outcome.violation[0] in options.first:
        print(f"found: {' '.join(outcome.violation)[:200]}")
    return int(outcome.violation is not None)


def _failure(plan: Plan) -> Failure:
    _, outcome = next(outcomes([plan], 1))
    return None if outcome.violation is None else outcome.violation[:2]


def _many(options: argparse.Namespace) -> int:
    seen: Counter[str] = Counter()
    histories: Counter[str] = Counter()
    failed: list[int] = []
    count = 0
    path: Path | None = options.coverage
    coverage = Coverage() if path is None else Coverage.read(path)
    drawn = sorted(name for name, (_, weight) in faults.WEIGHTS.items() if weight)

    def plans() -> Iterator[Plan]:
        for seed in options.seeds:
            rarest = () if path is None else coverage.rarest(seed, drawn)
            yield plan_of(seed, not options.wild, options.steer or rarest, options.controllers)

    for plan, outcome in outcomes(plans(), options.jobs):
        seed = plan.options.seed
        count += 1
        seen += outcome.seen
        coverage.add(outcome.seen)
        if path is not None:
            coverage.write(path)
        histories.update({*+outcome.seen})
        if options.traces:
            print("trace", seed, outcome.trace, outcome.steps)
        if outcome.violation is not None:
            failed.append(seed)
            said = " ".join(outcome.violation)
            if options.failures is not None:
                _keep(options.failures / f"seed-{seed}", plan, outcome)
            if outcome.violation[0] in options.first:
                print(f"found seed {seed}: {said[:200]}")
                return 1
            print(f"seed {seed}: {said[:400]}", flush=True)
    cpu = os.times()
    for name, number in sorted(seen.items()):
        print(f"in {histories[name]:6d} histories, {number:8d} times: {name}")
    for name in taps.never_reached(seen):
        print(f"never reached: {name}")
    print("\n".join(coverage.lines(drawn)))
    speed = f"{count / (cpu.children_user + cpu.children_system):.2f} a second of one core"
    print(f"{count} histories, {len(failed)} failed, {speed}: {failed}")
    return 1 if failed else 0


def _keep(folder: Path, plan: Plan, outcome: Outcome) -> None:
    """Write what somebody needs who looks into a failure later."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(plan.to_text())
    repeat = f"python -m tests.simulation --plan {folder / 'plan.json'}"
    (folder / "README").write_text(f"{' '.join(outcome.violation or ())}\n\n{repeat}\n")


@functools.cache
def _warm_up() -> None:
    """Run a short history, and keep all that it has made once: every history begins with that."""
    gc.collect()
    history.run(plan_of(WARM_UP_SEED, controllers=1))
    gc.freeze()


def outcomes(plans: Iterable[Plan], jobs: int) -> Iterator[tuple[Plan, Outcome]]:
    """Run histories, some at a time, each in a copy of this process, in the order of the plans."""
    _warm_up()
    running: deque[tuple[Plan, Any, Any]] = deque()
    for plan in plans:
        running.append((plan, *_begin(plan)))
        # With more than one job, one more than those runs on while the oldest is waited for.
        if len(running) > jobs or jobs == 1:
            yield _ended(*running.popleft())
    while running:
        yield _ended(*running.popleft())


def print_outcomes(plans: Iterable[Plan]) -> None:
    """Print a line for each history; `outcomes_of` reads them."""
    for _, outcome in outcomes(plans, 1):
        print(json.dumps({"violation": outcome.violation, "seen": outcome.seen}), flush=True)


def run_module(
    module: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a module of the simulation to its end, as a process that gives the same each time."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )


@functools.cache
def outcomes_of(module: str, *arguments: str) -> list[dict[str, Any]]:
    """Run all histories of a module in one process, which warms up once."""
    ran = run_module(module, *arguments)
    assert ran.returncode == 0, ran.stderr[-1000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def _begin(plan: Plan) -> tuple[Any, Any]:
    reading, writing = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_run, args=(plan, writing))
    child.start()
    writing.close()
    return child, reading


def _run(plan: Plan, writing: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (HISTORY_CPU_S, HISTORY_CPU_S))
    writing.send(history.run(plan)._replace(notes=[]))


def _ended(plan: Plan, child: Any, reading: Any) -> tuple[Plan, Outcome]:
    outcome = Outcome(("S12", "simulation", "its process died"), "", 0, 0.0, Counter(), [])
    with contextlib.suppress(EOFError):
        outcome = reading.recv()
    child.join()
    return plan, outcome
