"""`jbodlab demo`: a cluster, a client, a dead disk, and what became of every message."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path

from msgspec.structs import replace

from jbodlab.lab_state import ClusterState
from lab import replay, up_and_down
from lab.cluster import disks, programs
from lab.errors import LabError
from lab.interrupts import Interrupts
from lab.results import Results, keep_faults, keep_folders, keep_metadata, make_folder
from lab.screen import Screen, Tone
from lab.state_files import StateFiles


def run(options: argparse.Namespace, name: str, interrupts: Interrupts) -> int:
    """Run the whole demo; returns the exit code.

    Raises:
        LabError: something is missing, or did not work; nothing is left running.
    """
    # With the extra `analytics` it is wanted; who installed without has asked for none.
    has_spark = importlib.util.find_spec("pyspark") is not None
    with_spark = has_spark and not options.no_spark
    if with_spark:
        try:
            replay.check_requirements()
        except LabError as error:
            raise LabError(f"{error}; --no-spark leaves the replay of its log out") from error
    user = programs.server_user(options.uid)
    shape = up_and_down.Shape(
        disk_mb=options.disk_mb, kind=disks.FOLDER if options.plain_folders else None
    )
    files = StateFiles.open()
    # With JSON on the standard output, what people read goes to the other one.
    screen = Screen(sys.stderr if options.json else None)
    began = time.monotonic()
    screen.line("jbodlab demo: a disk dies under a running cluster", Tone.HEADING)
    if not has_spark and not options.no_spark:
        screen.detail(
            "without the replay of its log: pip install 'jbodlab[analytics]' brings Spark"
        )
    with files.lock(name):
        up_and_down.make_room(name, files, screen.detail)
        results = make_folder(options.output)
        is_kept = False
        try:
            screen.heading(
                f"Cluster: 1 controller, {shape.brokers} brokers with {shape.log_dirs} log "
                f"directories each, run by uid {user.uid}"
            )
            state = up_and_down.up(name, user, shape, files, interrupts, screen.detail)
            problems = _play(state, files, results, screen)
            keep_metadata(state, results)
            if not options.keep:
                up_and_down.stop(state)
            keep_folders(files.root(name), results)
            if with_spark:
                problems += _replay(state, files, results, screen, interrupts)
            if options.keep:
                with interrupts.deferred():
                    files.write(replace(state, owner=None))
                    is_kept = True
        except LabError:
            _keep_logs(files.root(name), results, screen)
            raise
        finally:
            if not is_kept:
                with interrupts.deferred():
                    for problem in up_and_down.down(name, files):
                        screen.detail(problem)
                    results.remove_if_empty()
        keep_faults(files.root(name), files.directory, results)
    if is_kept:
        screen.heading("The cluster is kept running")
        screen.detail(f"bootstrap.servers={state.bootstrap}")
        screen.detail(f"end it with: {programs.jbodlab()} down --name {name}")
    _close(screen, results, problems, time.monotonic() - began)
    if options.json:
        print(results.figures.read_text("utf-8"), end="")
    return 1 if problems else 0


def _play(state: ClusterState, files: StateFiles, results: Results, screen: Screen) -> list[str]:
    """Run the experiment; returns what went wrong."""
    from lab import experiment

    outcome = experiment.run(state, files.directory, screen)
    results.figures.write_text(outcome.to_json() + "\n", "utf-8")
    return outcome.problems


def _replay(
    state: ClusterState,
    files: StateFiles,
    results: Results,
    screen: Screen,
    interrupts: Interrupts,
) -> list[str]:
    """Replay the controller's log and print the report; returns what went wrong."""
    screen.heading("The controller's log, replayed by Spark into Parquet tables")
    problem = replay.run(results, Path(state.root), files.directory, interrupts)
    screen.block(results.report.read_text("utf-8"))
    return [problem] if problem else []


def _keep_logs(root: Path, results: Results, screen: Screen) -> None:
    """Keep what the servers said when the demo fails."""
    keep_folders(root, results)
    if results.logs.exists():
        screen.detail(f"logs are kept in {results.logs}")


def _close(screen: Screen, results: Results, problems: list[str], took_s: float) -> None:
    screen.heading("Written")
    for path in sorted(results.folder.iterdir()):
        screen.detail(str(path))
    screen.detail(str(results.printed))
    screen.line()
    for problem in problems:
        screen.line(f"FAILED: {problem}", Tone.BAD)
    if not problems:
        screen.line(
            "PASSED: nothing lost, nothing twice, nothing out of order, and every partition has "
            f"its leader ({took_s:.0f} s)",
            Tone.GOOD,
        )
    results.printed.write_text("\n".join(screen.lines) + "\n", "utf-8")
