"""`jbodlab run --fail broker-1/2 -- COMMAND`: what a broken disk does to somebody's program.

The run is a plan of the rehearsals: the program finds the cluster by `{bootstrap}` in its words and
by `JBODLAB_BOOTSTRAP`, and a closed one by the files that `JBODLAB_CLIENT_FILE_JAVA` and its like
name. A producer and two consumers of ours measure the cluster beside it, and the measured time ends
with the program. Then the fault is reverted, and every message is read back.

Exit codes: the program's own; 64 for a wrong call; 70 where the cluster lost or duplicated
messages; 75 where nobody knows, since a message could not be read or nothing was broken.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fault_injection import kinds
from fault_injection.errors import FaultError
from jbodlab.cli.choice import NoClusterError
from jbodlab.cli.output import Output
from jbodlab.vocabulary import expressions
from jbodlab.vocabulary.durations import duration_s, duration_text
from jbodlab.vocabulary.expressions import MetricUnit
from lab import opened
from lab.cluster import Broker, Cluster
from lab.commands import breaking
from lab.commands.own_cluster import chosen_cluster, chosen_name
from lab.errors import WRONG_USE, LabError, WrongCallError
from lab.findings import Weight
from lab.machine import programs
from lab.machine.interrupts import Interrupts
from lab.plan import targets
from lab.plan.plan import (
    At,
    Attach,
    End,
    Entry,
    Exit,
    ForegroundCommand,
    Objective,
    Plan,
    Readers,
    Steady,
    Topic,
    Writers,
)
from lab.rehearsal.facts import FaultFacts
from lab.rehearsal.metrics import Measured
from lab.rehearsal.result import clients_json
from lab.rehearsal.run import Done, perform
from lab.rehearsal.target_cluster import of_lab
from lab.screen import Screen
from lab.state_files import StateFiles
from lab.watch.events import Event

if TYPE_CHECKING:
    from jbodlab.cli.results import RunOfProgram

LOST, NOT_KNOWN = 70, 75
"""Exit codes of our own."""
PARTITIONS_PER_DIRECTORY = 2
RATE_OF_PARTITION = 40
"""Messages per second: a gap is known to the time between two of them."""
RATE_MAX = 500
"""Of all partitions together, as all are kept: 36 ms between two of one in a default cluster."""
CONSUMERS = 2
STEADY_WITHIN_S = 40.0
STEADY_S = 2.0
"""Each partition is acknowledged in such a time before, also where the machine has more to do."""
APP, FAULT = "app", "fault"
_PRINTED = (Weight.DOUBT.value, Weight.WARNING.value)
"""Findings with a line of their own; the others have theirs by the counts of messages."""
LENGTH_MAX_S = 7 * 24 * 3600.0


def run(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Carry it out; returns the exit code."""
    try:
        return _run(options, output, interrupts)
    except WrongCallError as error:
        output.note(f"jbodlab run: {error}")
        return WRONG_USE
    except (LabError, NoClusterError) as error:
        output.note(f"jbodlab run: {error}")
        return NOT_KNOWN


def _run(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    if shutil.which(options.rest[0]) is None:
        raise WrongCallError(f"program {options.rest[0]} not found")
    files = StateFiles.open()
    options.cluster = chosen_name(options, files, output)
    screen = Screen(sys.stderr)
    with (
        files.lock(options.cluster),
        chosen_cluster(options, files, interrupts, screen.detail) as target,
    ):
        cluster = target.cluster
        plan = _plan(options, cluster)
        tell, faults = screen.teller("injected"), []

        def note(event: Event) -> None:
            if event.kind == "injected":
                faults.append(event)
            tell(event)

        with (
            _remaining_work_shown(options.cluster, cluster, faults if target.stays else []),
            _topic_deleted(cluster, plan.topics[0].name, interrupts) as keep,
            tempfile.TemporaryDirectory(prefix="jbodlab-run-") as folder,
        ):
            found = judged(perform(plan, of_lab(cluster), Path(folder), note), plan)
            found["topic_kept"] = found["topic_kept"] and target.stays
            if found["topic_kept"]:
                keep()
        if target.stays:
            found["to_do"], _ = breaking.afterwards(options.cluster, cluster, [], reviving=False)
    screen.line()
    output.result(found, _text(options, found))
    return exit_code(found)


def objectives() -> tuple[Objective, ...]:
    """Return what must hold of the cluster, beside what holds of every plan."""
    none_twice = expressions.parse("producer.duplicated == 0", lambda _metric: MetricUnit.COUNT)
    return (Objective(that=none_twice),)


def rate(partitions: int) -> int:
    """Return how many messages per second measure so many partitions."""
    return min(RATE_OF_PARTITION * partitions, RATE_MAX)


def exit_code(found: RunOfProgram) -> int:
    """Return the exit code of a run."""
    weights = {Weight(one["weight"]) for one in found["findings"]}
    if weights & {Weight.BREACH, Weight.MISS}:
        return LOST
    own = found["exit_code"] or 0
    return NOT_KNOWN if not own and Weight.DOUBT in weights else own


def _plan(options: Namespace, cluster: Cluster) -> Plan:
    """Return the plan that a command line describes.

    Raises:
        WrongCallError: its words are wrong, or the fault cannot be made here.
    """
    try:
        spec, target = breaking.wanted(options, cluster, options.fail)
        after_s = duration_s(options.after)
        if reason := cluster.faults.check(spec, target):
            raise WrongCallError(reason)
    except (FaultError, LabError, ValueError) as error:
        raise WrongCallError(str(error)) from error
    words = {key: getattr(options, f"word_{key}") for key in kinds.PARAMETERS}
    other, where = None, targets.parse(opened.WHOLE)
    if options.fail != opened.WHOLE:
        broker, directory = opened.target(cluster, options.fail)
        if not isinstance(broker, Broker):
            raise WrongCallError(f"expected a broker or its directory, got {options.fail}")
        where = targets.Node(broker.id)
        if directory is not None:
            where = targets.Directory(broker.id, broker.log_dirs.index(directory) + 1)
        if spec.other is not None:
            del words["with"]
            other = targets.Directory(broker.id, broker.paths.index(spec.other) + 1)
    partitions = PARTITIONS_PER_DIRECTORY * sum(len(one.log_dirs) for one in cluster.brokers)
    replicas = min(3, len(cluster.brokers))
    topic = Topic(
        name=f"jbodlab-run-{uuid.uuid4().hex[:8]}",
        partitions=partitions,
        replicas=replicas,
        # One replica may be missing, as long as the broken directory is.
        config={"min.insync.replicas": str(max(1, replicas - 1))},
    )
    consumers = [
        Readers(name=f"consumer-{one}", topic=topic.name, group=topic.name)
        for one in range(1, CONSUMERS + 1)
    ]
    program = ForegroundCommand(name=APP, command=tuple(options.rest))
    fault = Entry(
        name=FAULT,
        do=spec.kind,
        instant=At(seconds=after_s),
        where=where,
        length_s=spec.length_s,
        spec=spec,
        given={key: value for key, value in words.items() if value is not None},
        other=other,
    )
    return Plan(
        name="run",
        cluster=Attach(cluster=options.cluster),
        topics=(topic,),
        load=(
            Writers(name="producer", topic=topic.name, rate=rate(partitions), keys=4 * partitions),
            *consumers,
            program,
        ),
        steady=Steady(within_s=STEADY_WITHIN_S, hold_s=STEADY_S),
        timeline=(fault,),
        end=End(instant=Exit(name=APP), within_s=LENGTH_MAX_S),
        objectives=objectives(),
    )


def judged(done: Done, plan: Plan) -> RunOfProgram:
    """Return what came of a run, as JSON values."""
    facts, metrics = done.facts, done.json["metrics"]
    code = facts.commands[APP].exit_code if APP in facts.commands else None
    fault = facts.faults.get(FAULT, FaultFacts(name=FAULT, kind=plan.faults[0].do))
    (topic,) = plan.topics
    producer = facts.writers["producer"]
    verdict = producer.verdict
    assert verdict is not None
    is_unclear = bool(verdict.lost or verdict.unread or verdict.duplicated)
    injected_ns = fault.injected_ns
    gap = None if injected_ns is None else Measured(facts).longest_gap(injected_ns)
    return {
        "exit_code": None if code is None else code if code >= 0 else 128 - code,
        "gap_ms": None if gap is None else round(gap.seconds * 1000, 1),
        "gap_partition": None if gap is None else str(gap.partition),
        "gap_ended": None if gap is None else not gap.hole.is_open,
        "acknowledged": verdict.acknowledged,
        "lost": verdict.lost,
        "unread": verdict.unread,
        "duplicated": verdict.duplicated,
        "out_of_order": verdict.out_of_order,
        "never_acknowledged": int(metrics["producer.unknown"]["value"] or 0),
        "fault": f"{fault.kind} by {fault.mechanism}" if fault.mechanism else fault.kind,
        "broken": fault.broken,
        "clients": clients_json(fault.clients),
        "topic": topic.name,
        "topic_kept": is_unclear and not producer.is_topic_deleted,
        "verdict": done.json["verdict"],
        "findings": done.json["findings"],
        "doubts": done.json["doubts"],
        "to_do": [],
    }


def _text(options: Namespace, found: RunOfProgram) -> str:
    verb = "" if found["clients"] else " broken"
    broken = f", {found['broken']}{verb}" if found["broken"] else ""
    lines = [f"fault        {found['fault']} on {options.fail}{broken}"]
    if found["gap_ms"] is not None:
        open_end = "" if found["gap_ended"] else ", not ended"
        length = duration_text(found["gap_ms"] / 1000)
        lines.append(f"gap          {length} in {found['gap_partition']}{open_end}")
    lines.append(f"lost         {found['lost']} of {found['acknowledged']} acknowledged messages")
    if found["unread"]:
        lines.append(f"unread       {found['unread']}: nobody knows whether they are lost")
    lines += [
        f"duplicated   {found['duplicated']}",
        f"exit code    {_exit_codes(found)}",
        *(one["text"] for one in found["findings"] if one["weight"] in _PRINTED),
    ]
    if found["topic_kept"]:
        deletion = programs.call(f"topics delete {found['topic']}", options.cluster)
        lines.append(
            f"topic {found['topic']} is kept for you to look at; delete it with: {deletion}"
        )
    return "\n".join([*lines, *found["to_do"]])


def _exit_codes(found: RunOfProgram) -> str:
    """Return the exit code of the program, and that of the command where it is another one."""
    own = exit_code(found)
    program = found["exit_code"]
    if program == own:
        return str(own)
    return (
        f"{own} ({'the program did not end' if program is None else f'of the program: {program}'})"
    )


@contextlib.contextmanager
def _topic_deleted(
    cluster: Cluster, name: str, interrupts: Interrupts
) -> Iterator[Callable[[], None]]:
    """Delete the topic of a run afterwards; yields what keeps it."""
    kept = []
    try:
        yield lambda: kept.append(name)
    finally:
        if not kept:
            with interrupts.deferred(), _only_printed():
                cluster.delete_topics(name)


@contextlib.contextmanager
def _only_printed() -> Iterator[None]:
    """Print what cannot be tidied up; it hides neither the results nor why there is an end."""
    try:
        yield
    except (FaultError, LabError) as error:
        print(f"jbodlab run: {error}", file=sys.stderr)


@contextlib.contextmanager
def _remaining_work_shown(name: str, cluster: Cluster, faults: list[Event]) -> Iterator[None]:
    """Print what is still to be done if there is an end before that of the run."""
    try:
        yield
    except (KeyboardInterrupt, LabError):
        if faults:
            with _only_printed():
                for line in breaking.afterwards(name, cluster, [], reviving=False)[0]:
                    print(f"jbodlab: {line}", file=sys.stderr)
        raise
