"""`jbodlab rehearse`: run a plan, judge it, keep one page and one file of figures.

Exit codes: 0 PASS, 1 FAIL, 2 INCONCLUSIVE (also where a plan cannot be run here), 64 a wrong plan
or a wrong call, 130 interrupted, after everything was healed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from argparse import ArgumentError, ArgumentParser, Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from fault_injection.kinds import KINDS
from jbodlab.cli.output import Output
from lab.applications import word_count
from lab.cluster import ClusterSpec, kafka_servers
from lab.cluster.engine import OWN, Engine, EngineError, compared
from lab.cluster.spec import first_given, over
from lab.errors import WRONG_USE, LabError, WrongCallError
from lab.findings import Kind, Outcome
from lab.machine import disks
from lab.machine.interrupts import Interrupts
from lab.plan import plans, reader
from lab.plan.plan import Attach, Plan
from lab.report import junit, page, side_by_side
from lab.screen import Screen, Tone

if TYPE_CHECKING:
    from jbodlab.cli.results import Run, ShippedPlan

Runs: TypeAlias = "dict[str, list[Run]]"
"""Results by the engine, in the order of the command line."""
OF_A_RUN = ("report.html", "result.json", "events.jsonl", "distribution.json")
"""Files of results."""
_OF_OBJECTIVES = [kind.name.lower() for kind in (Kind.MISSED, Kind.WARNED)]
"""Words that the line of an objective says already."""
_TONES = {"PASS": Tone.GOOD, "FAIL": Tone.BAD, "INCONCLUSIVE": Tone.HEADING}


def run(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Run the command; returns the exit code."""
    if options.list:
        return _list(output)
    try:
        if options.compare is not None:
            return _compare(options)
        if not options.check:
            _keep_no_verdict(options, "the rehearsal has not come to its end")
        if options.plan is None:
            raise WrongCallError("expected a plan; --list shows those that are shipped")
        plan = _read(options.plan)
        if options.check:
            print(f"{options.plan}: correct, {len(plan.timeline)} entries")
            return 0
        return _rehearse(plan, options, output, interrupts)
    except reader.PlanError as error:
        return _without_verdict(options, str(error), str(error), WRONG_USE)
    except WrongCallError as error:
        return _without_verdict(options, str(error), f"jbodlab rehearse: {error}", WRONG_USE)
    except LabError as error:
        line = f"jbodlab rehearse: INCONCLUSIVE: {error}"
        return _without_verdict(options, str(error), line, Outcome.INCONCLUSIVE.value)


def refused(words: list[str], reason: str) -> None:
    """Replace the verdict of an earlier run where the words of a call are wrong."""
    found = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    found.add_argument("--junit", type=Path)
    found.add_argument("--results", type=Path)
    found.add_argument("--check", action="store_true")
    # Where the file is not named, or cannot be written, there is nothing to replace.
    with contextlib.suppress(ArgumentError, WrongCallError):
        options, _ = found.parse_known_args(words)
        if not options.check:
            _keep_no_verdict(options, reason)


def _without_verdict(options: Namespace, reason: str, line: str, code: int) -> int:
    print(line, file=sys.stderr)
    # Where the file cannot be written, that is the reason already.
    with contextlib.suppress(WrongCallError):
        if not options.check:
            _keep_no_verdict(options, reason)
    return code


def _keep_no_verdict(options: Namespace, reason: str) -> None:
    """Replace the verdict of an earlier run, which a reader would take for that of this one.

    Raises:
        WrongCallError: the file cannot be written.
    """
    if options.results is not None:
        # A folder that cannot be used holds no results of an earlier run either.
        with contextlib.suppress(OSError):
            _remove_results(options.results)
    if options.junit is not None:
        _write(options.junit, junit.unfinished(reason))


def _remove_results(folder: Path) -> None:
    for name in OF_A_RUN:
        (folder / name).unlink(missing_ok=True)


def _list(output: Output) -> int:
    """Print the shipped plans: what happens in each, what makes that, and whether it can here."""
    shown: list[ShippedPlan] = []
    for name, text in plans.shipped().items():
        plan = reader.read(text, name)
        made_by = dict.fromkeys(" or ".join(KINDS[each.do].mechanisms) for each in plan.faults)
        shown.append(
            {
                "plan": name,
                "does": list(dict.fromkeys(entry.do for entry in plan.timeline)),
                "made_by": list(made_by),
                "not_here": _refusal(plan),
            }
        )
    if output.is_json:
        output.json(shown)
        return 0
    for one in shown:
        not_here = f"  (not here: {one['not_here']})" if one["not_here"] else ""
        line = f"{one['plan']:<40} {', '.join(one['does']):<22} {', then '.join(one['made_by'])}"
        print(f"{line}{not_here}".rstrip())
    return 0


def _refusal(plan: Plan) -> str:
    """Return what a plan needs that is not there, empty if nothing is known to be missing."""
    need = plan.cluster
    refused = disks.refusal(need.disk_kind) if isinstance(need, ClusterSpec) else ""
    return refused or (word_count.refusal() if plan.streams else "")


def _read(name: str) -> Plan:
    """Return the plan of a file, or a shipped one by its name."""
    file = Path(name)
    if not file.exists() and (text := plans.shipped().get(name.removesuffix(".yaml"))):
        return reader.read(text, name)
    try:
        return reader.read(file.read_text("utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise reader.PlanError(f"{name}: cannot be read: {reason}") from error


def _rehearse(plan: Plan, options: Namespace, output: Output, interrupts: Interrupts) -> int:
    from lab.rehearsal.run import run as run_once

    plan, engines = _on(plan, options)
    for each in plan.streams:
        # Nothing is made where its jars are missing.
        word_count.command(each.release)
    folder = _folder(options.results)
    screen = Screen(sys.stderr if output.is_json else sys.stdout)
    if options.against:
        kafka_servers.fetch(engines)
    runs: Runs = {str(one): [] for one in engines}
    wanted = [(one, number) for one in engines for number in range(1, options.repeat + 1)]
    # Rests of an earlier run would be taken for those of this one.
    for below in (folder, *(_of_run(folder, *each, options) for each in wanted)):
        _remove_results(below)
    for one, number in wanted:
        shown = [f"[{one.title}]"] if options.against else []
        shown += [f"[run-{number}]"] if options.repeat > 1 else []
        screen.heading(" ".join([plan.name, *shown]))
        done = run_once(
            plan,
            _of_run(folder, one, number, options),
            screen.teller("steady"),
            engine=one,
            is_mine=options.is_mine,
            interrupts=interrupts,
        )
        runs[str(one)].append(done.json)
        _print(done.json, screen)
    _keep(folder, runs, options, screen)
    everything = [run for each in runs.values() for run in each]
    # The verdict is about the first engine; the others are for comparison.
    judged = runs[str(engines[0])]
    if output.is_json:
        output.json(everything if len(everything) > 1 else everything[0])
    return Outcome[page.worst(judged)].value


def _of_run(folder: Path, engine: Engine, number: int, options: Namespace) -> Path:
    """Return the folder of one run below that of all results."""
    parts = [engine.folder_name] if options.against else []
    parts += [f"run-{number}"] if options.repeat > 1 else []
    return folder.joinpath(*parts)


def _on(plan: Plan, options: Namespace) -> tuple[Plan, list[Engine]]:
    """Return a plan with the settings of the command line, and the engines that it runs on.

    Raises:
        WrongCallError: an engine is named twice or has no such nodes, or the plan names its cluster
            itself.
    """
    need = plan.cluster
    if isinstance(need, Attach):
        if option := first_given(options, "against"):
            raise WrongCallError(f"{option} has no effect on a plan that attaches to a cluster")
        return plan, [OWN]
    need = over(need, options)
    named = options.engine or (str(need.engine) if need.engine else None)
    try:
        engines = compared(named, options.against, os.environ)
        for one in engines:
            (need.beside(one) if options.against else dataclasses.replace(need, engine=one)).check()
    except EngineError as error:
        raise WrongCallError(str(error)) from error
    return replace(plan, cluster=need), engines


def _keep(
    folder: Path,
    runs: Runs,
    options: Namespace,
    screen: Screen,
) -> None:
    report = folder / "report.html"
    first = next(iter(runs.values()))
    if options.against:
        screen.line()
        screen.block("\n".join(side_by_side.keep(runs, report)))
    else:
        report.write_text(page.page(first), "utf-8")
    if options.repeat > 1:
        spread = {name: page.distribution(found) for name, found in runs.items()}
        (folder / "distribution.json").write_text(json.dumps(spread, indent=1) + "\n", "utf-8")
        if not options.against:
            screen.line()
            screen.block("\n".join(page.spread_lines(first)))
    if options.junit is not None:
        _write(options.junit, junit.xml(runs))
    screen.line()
    screen.detail(str(report))


def _print(found: Run, screen: Screen) -> None:
    screen.line()
    for held in found["objectives"]:
        word = {True: "met", False: "missed", None: "not known"}[held["holds"]]
        tone = Tone.GOOD if held["holds"] else Tone.BAD
        screen.line(f"  {word:<9}  {held['text']:<40}  measured {held['measured']}", tone)
    for one in found["findings"]:
        if one["kind"] not in _OF_OBJECTIVES:
            screen.detail(one["text"])
    screen.line(found["sentence"], _TONES[found["verdict"]])


def _compare(options: Namespace) -> int:
    found = {str(file): [_result(file)] for file in options.compare}
    print("\n".join(page.compared_lines(found)))
    if options.results is not None:
        folder = _folder(options.results)
        (folder / "report.html").write_text(page.comparison(found), "utf-8")
        print(folder / "report.html")
    return 0


def _result(file: Path) -> Run:
    from lab.rehearsal.result import SCHEMA

    try:
        found: Run = json.loads(file.read_text("utf-8"))
        if found["schema"] != SCHEMA:
            raise WrongCallError(f"{file} has schema {found['schema']}, expected {SCHEMA}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise WrongCallError(f"{file} is not a result of a rehearsal: {reason}") from error
    return found


def _folder(wanted: Path | None) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = (wanted or Path("rehearsals") / stamp).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WrongCallError(f"{folder} cannot be written: {error.strerror}") from error
    _write(folder / "report.html", "")
    (folder / "report.html").unlink()
    return folder


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise WrongCallError(f"{file} cannot be written: {error.strerror}") from error
