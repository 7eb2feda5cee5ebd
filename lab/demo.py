"""`jbodlab demo`: a cluster, clients, a dead disk, and what became of every message."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from fault_injection import kinds
from jbodlab.cli.lab_state import ClusterState
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from jbodlab.vocabulary import expressions
from jbodlab.vocabulary.durations import duration_text
from jbodlab.vocabulary.expressions import MetricUnit
from lab import replay, up_and_down
from lab.cluster import ClusterSpec, engine, kafka_servers
from lab.cluster.engine import Engine
from lab.cluster.spec import of_options
from lab.errors import LabError
from lab.findings import Outcome, Weight
from lab.machine import programs
from lab.machine.interrupts import Interrupts
from lab.machine.processes import ServerUser
from lab.plan.plan import (
    After,
    At,
    Attach,
    End,
    Entry,
    Objective,
    Plan,
    Readers,
    Steady,
    Topic,
    Writers,
)
from lab.plan.targets import Pick
from lab.rehearsal import messages
from lab.rehearsal.metrics import Measured
from lab.rehearsal.run import Done, perform
from lab.rehearsal.target_cluster import of_lab
from lab.report import page, side_by_side
from lab.results import Results, keep_faults, keep_folders, keep_metadata, make_folder
from lab.screen import Screen, Tone
from lab.state_files import StateFiles

if TYPE_CHECKING:
    from jbodlab.cli.results import Run

RATE_PER_S = 500
CONSUMERS = 2
FAULT = "fault"
HOLD_S = 2.0
"""How long all must be well before the disk dies."""
BEFORE_S = 1.0
CALM_S = 2.0
"""How long traffic goes on after everything has come back."""
WITHIN_S = 40.0
FAULT_KIND = "permission"
CONSUMED = ("consumer-1.consumed > 0", "consumer-2.consumed > 0")
MUST_HOLD = (
    "writers.lost == 0",
    "writers.unread == 0",
    "writers.duplicated == 0",
    "writers.reordered == 0",
    "writers.unknown == 0",
    "writers.errors == 0",
)


class Story(NamedTuple):
    """Outcome of the demo on one engine.

    Attributes:
        figures: The result of its plan, as JSON values.
        problems: Faults beside it, one line each.
    """

    figures: Run
    problems: list[str]

    @property
    def exit_code(self) -> int:
        """That of its verdict; 1 where only something beside it went wrong."""
        return Outcome[self.figures["verdict"]].value or int(bool(self.problems))

    @property
    def lines(self) -> list[str]:
        """Findings that speak against it, one line each."""
        word = "INCONCLUSIVE" if self.figures["verdict"] == "INCONCLUSIVE" else "FAILED"
        found = [
            f"{word}: {one['text']}"
            for one in self.figures["findings"]
            if one["weight"] != Weight.WARNING.value
        ]
        return [*found, *(f"FAILED: {problem}" for problem in self.problems)]


def plan(cluster_name: str) -> Plan:
    """Return the plan of the demo: the busiest disk of the cluster dies under load."""
    topic = Topic(name="demo", partitions=6, replicas=3, config={"min.insync.replicas": "2"})
    members = [
        Readers(name=f"consumer-{one}", topic=topic.name, group="demo-group")
        for one in range(1, CONSUMERS + 1)
    ]
    return Plan(
        name="jbodlab demo",
        hypothesis="a disk that dies under load costs no message",
        cluster=Attach(cluster=cluster_name),
        topics=(topic,),
        load=(Writers(name="writers", topic=topic.name, rate=RATE_PER_S, keys=24), *members),
        steady=Steady(
            hold_s=HOLD_S,
            that=tuple(_count(text) for text in ("isr_full == 1", *CONSUMED)),
        ),
        timeline=(
            Entry(
                name=FAULT,
                do=FAULT_KIND,
                instant=At(seconds=BEFORE_S),
                where=Pick("busiest", None),
                spec=kinds.spec(FAULT_KIND, {}),
            ),
        ),
        end=End(instant=After(name=FAULT, moment="first_ack", plus_s=CALM_S), within_s=WITHIN_S),
        objectives=tuple(Objective(that=_count(text)) for text in MUST_HOLD),
    )


def _count(text: str) -> expressions.Expression:
    return expressions.parse(text, lambda _metric: MetricUnit.COUNT)


def run(options: Namespace, output: Output, interrupts: Interrupts) -> int:
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
    if options.keep and options.against:
        raise UsageError("--keep has no effect with --against: one cluster follows another")
    user = programs.server_user(options.uid)
    engines = engine.compared(options.engine, options.against, os.environ)
    specs = {
        # The disk that dies needs no broken calls.
        one: of_options(options, one, mechanism="none")
        for one in engines
    }
    if options.against:
        kafka_servers.fetch(engines)
    files, name = StateFiles.open(), up_and_down.DEMO_CLUSTER
    # With JSON on the standard output, what people read goes to the other one.
    screen = Screen(sys.stderr if output.is_json else None)
    began = time.monotonic()
    screen.line("jbodlab demo: a disk dies under a running cluster", Tone.HEADING)
    if not has_spark and not options.no_spark:
        screen.detail(
            "without the replay of its log: pip install 'jbodlab[analytics]' brings Spark"
        )
    with files.lock(name):
        up_and_down.make_room(name, files, screen.detail)
        results = make_folder(options.results)
        stories = {}
        for one, spec in specs.items():
            if options.against:
                screen.heading(f"== {one.title} ==")
            stories[one] = _story(
                spec,
                user,
                files,
                results.of(one) if options.against else results,
                screen,
                interrupts,
                with_spark=with_spark,
                keeps=options.keep,
            )
    runs = {str(one): [story.figures] for one, story in stories.items()}
    if options.against:
        screen.heading("Side by side")
        screen.block("\n".join(side_by_side.keep(runs, results.page)))
    _close(screen, results, stories, time.monotonic() - began)
    if output.is_json:
        figures = [found for each in runs.values() for found in each]
        output.json(figures if options.against else figures[0])
    # The exit code is about the first engine; the others are for comparison.
    return stories[engines[0]].exit_code


def _story(
    spec: ClusterSpec,
    user: ServerUser,
    files: StateFiles,
    results: Results,
    screen: Screen,
    interrupts: Interrupts,
    *,
    with_spark: bool,
    keeps: bool,
) -> Story:
    """Start a cluster, carry the plan out, and end the cluster unless it is kept.

    Raises:
        LabError: it did not work; nothing is left running.
    """
    name = up_and_down.DEMO_CLUSTER
    is_kept = False
    try:
        screen.heading(
            f"Cluster: {spec.nodes_text} with {spec.disks} log directories each, run by uid "
            f"{user.uid}"
        )
        state = up_and_down.up(name, user, spec, files, interrupts, screen.detail)
        story = _play(state, files, results, screen)
        keep_metadata(state, results)
        if not keeps:
            up_and_down.stop(state)
        keep_folders(files.root(name), results)
        if with_spark:
            replayed = _replay(state, files, results, screen, interrupts)
            story = story._replace(problems=[*story.problems, *replayed])
        if keeps:
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
        screen.detail(f"stop it with: {programs.call('down', name)}")
    return story


def _play(state: ClusterState, files: StateFiles, results: Results, screen: Screen) -> Story:
    """Carry the plan out."""
    cluster = up_and_down.opened(state, files)
    wanted = plan(state.name)
    (topic,) = wanted.topics
    screen.detail(
        f"topic {topic.name}: {topic.partitions} partitions, replication factor "
        f"{topic.replicas}, min.insync.replicas {topic.config['min.insync.replicas']}"
    )
    screen.detail(
        f"idempotent producer with acks=all, {RATE_PER_S} messages/s; {CONSUMERS} consumers in "
        "a group"
    )
    screen.heading("A disk dies")
    try:
        done = perform(wanted, of_lab(cluster), results.folder, screen.teller("injected"))
    finally:
        shutil.rmtree(results.folder / "clients", ignore_errors=True)
    results.page.write_text(page.page([done.json]), "utf-8")
    _print(done, screen)
    return Story(done.json, [])


def _print(done: Done, screen: Screen) -> None:
    facts = done.facts
    writer, readers = facts.writers["writers"], list(facts.readers.values())
    verdict = writer.verdict
    assert verdict is not None
    screen.heading("Messages")
    screen.detail(f"acknowledged   {verdict.acknowledged:>7}")
    for label, count in (
        ("lost", verdict.lost),
        ("unread", verdict.unread),
        ("duplicated", verdict.duplicated),
        ("out of order", verdict.out_of_order),
    ):
        if count or label != "unread":
            screen.line(f"  {label:<14} {count:>7}", Tone.BAD if count else Tone.GOOD)
    screen.line()
    measured = Measured(facts)
    for label, name, field in (
        ("from the fault to the broker that detects it", FAULT, "detected"),
        ("from the fault to the last new leader", FAULT, "elected"),
        ("from the fault to clients that see all new leaders", FAULT, "leader_seen"),
        ("longest gap between acknowledgements of a partition", FAULT, "gap"),
    ):
        shown = measured.shown(expressions.MetricName(name, field), MetricUnit.DURATION)
        screen.detail(f"{label:<52} {shown:>9}")
    gap = max(
        (measured(expressions.MetricName(name, "gap")) or 0 for name in facts.readers), default=0
    )
    received = [one for reader in readers for one in reader.received]
    screen.detail(
        f"{'longest gap between messages that a consumer gets':<52} {duration_text(gap):>9}"
    )
    screen.detail(
        f"the group rebalanced {sum(reader.rebalances for reader in readers)} times, and got "
        f"{messages.given_twice(received)} messages twice"
    )


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


def _close(
    screen: Screen, results: Results, stories: Mapping[Engine, Story], took_s: float
) -> None:
    screen.heading("Written")
    for path in sorted(results.folder.iterdir()):
        screen.detail(str(path))
    screen.detail(str(results.printed))
    screen.line()
    for one, story in stories.items():
        of_engine = f"{one}: " if len(stories) > 1 else ""
        for line in story.lines:
            screen.line(f"{of_engine}{line}", Tone.BAD)
        if not story.lines:
            screen.line(
                f"{of_engine}PASSED: nothing lost, nothing twice, nothing out of order, and every "
                "partition has its leader",
                Tone.GOOD,
            )
    screen.line(f"took {took_s:.0f} s")
    results.printed.write_text("\n".join(screen.lines) + "\n", "utf-8")
