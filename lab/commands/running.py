"""`jbodlab run --fail broker-1/2 -- COMMAND`: a disk breaks while somebody's program runs.

Beside the program a producer and two consumers in a group, of our own, measure: the longest gap
between two acknowledgements, what was lost, and what came twice. Interrupted, it heals first, then
ends what it started, and says what is left to be done.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

from fault_injection.errors import FaultError
from jbodlab.durations import duration_s
from lab import experiment, traffic, verdict
from lab.cluster import Cluster, Fault, processes
from lab.commands import breaking, clusters
from lab.errors import LabError
from lab.interrupts import Interrupts
from lab.state_files import StateFiles
from lab.traffic import ConsumerGroup, Producer

PARTITIONS_PER_DIRECTORY = 2
RATE_OF_PARTITION = 40
"""Messages per second: a gap is known to the time between two of them."""
RATE_MAX = 500
"""Of all partitions together, as all are kept: 36 ms between two of one in a default cluster."""
PATIENCE_S = 10.0
JOIN_TIMEOUT_S = 10.0
END_DEADLINE_S = 10.0
POLL_S = 0.05


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Carry it out; returns the program's exit code, or 1 if messages were lost or doubled."""
    if shutil.which(options.words[0]) is None:
        raise LabError(f"cannot start {options.words[0]}: there is no such program")
    files = StateFiles.open()
    with files.lock(options.name):
        cluster = clusters.opened(files, options.name, interrupts)
        try:
            spec, target = breaking.wanted(options, cluster, options.fail)
            after_s = duration_s(options.after)
            if reason := cluster.faults.check(spec, target):
                raise LabError(reason)
        except (FaultError, ValueError) as error:
            raise LabError(str(error)) from error
        partitions = PARTITIONS_PER_DIRECTORY * sum(len(one.log_dirs) for one in cluster.brokers)
        faults: list[Fault] = []
        with (
            _remaining_told(options.name, cluster, faults),
            _topic(cluster, partitions, interrupts) as topic,
        ):
            producer = Producer(cluster.bootstrap, topic, partitions, rate(partitions))
            group = ConsumerGroup(cluster.bootstrap, topic, experiment.CONSUMERS)
            command: subprocess.Popen[bytes] | None = None
            producer.start()
            group.start()
            try:
                experiment.warm_up(producer, group, partitions)
                with interrupts.deferred():
                    command = _start(options, cluster)
                _wait(command, after_s)
                with interrupts.deferred():
                    faults.append(cluster.faults.inject(spec, target))
                code = command.wait()
                with interrupts.deferred():
                    faults[0].heal()
                producer.stop()
                producer.join()
                group.finish(experiment.ends(producer), PATIENCE_S)
                group.join()
            except FaultError as error:
                raise LabError(str(error)) from error
            finally:
                with interrupts.deferred():
                    _tidy_up(faults, command, producer, group)
        to_do, _ = breaking.afterwards(options.name, cluster, [], reviving=False)
    found = _judged(producer, group, faults[0], code)
    clusters.show(options.json, {**found, "to_do": to_do}, _text(options, found, to_do))
    return code or (1 if found["lost"] or found["duplicated"] else 0)


def rate(partitions: int) -> int:
    """Return how many messages per second measure so many partitions."""
    return min(RATE_OF_PARTITION * partitions, RATE_MAX)


@contextlib.contextmanager
def _topic(cluster: Cluster, partitions: int, interrupts: Interrupts) -> Iterator[str]:
    """Make a topic of our own that is gone afterwards, whatever happened; yields its name."""
    topic = f"jbodlab-run-{uuid.uuid4().hex[:8]}"
    replicas = min(3, len(cluster.brokers))
    try:
        traffic.create_topic(
            cluster.bootstrap,
            topic,
            partitions=partitions,
            replication_factor=replicas,
            # One replica may be missing, as long as the broken directory is.
            min_isr=max(1, replicas - 1),
        )
        yield topic
    finally:
        with interrupts.deferred(), _only_told():
            traffic.delete_topic(cluster.bootstrap, topic)


@contextlib.contextmanager
def _only_told() -> Iterator[None]:
    """Say what cannot be tidied up; it hides neither what was found nor why there is an end."""
    try:
        yield
    except (FaultError, LabError) as error:
        print(f"jbodlab: {error}", file=sys.stderr)


@contextlib.contextmanager
def _remaining_told(name: str, cluster: Cluster, faults: list[Fault]) -> Iterator[None]:
    """Say what is still to be done if there is an end before that of the experiment."""
    try:
        yield
    except (KeyboardInterrupt, LabError):
        if faults:
            with _only_told():
                for line in breaking.afterwards(name, cluster, [], reviving=False)[0]:
                    print(f"jbodlab: {line}", file=sys.stderr)
        raise


def _start(options: argparse.Namespace, cluster: Cluster) -> subprocess.Popen[bytes]:
    words = [word.replace("{bootstrap}", cluster.bootstrap) for word in options.words]
    try:
        # In a session of its own, so that all that it starts is found and ended with it.
        return subprocess.Popen(
            words,
            env={**os.environ, "JBODLAB_BOOTSTRAP": cluster.bootstrap},
            start_new_session=True,
        )
    except OSError as error:
        raise LabError(f"cannot start {words[0]}: {error.strerror}") from error


def _wait(command: subprocess.Popen[bytes], for_s: float) -> None:
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        if command.poll() is not None:
            raise LabError(
                f"the command ended with exit code {command.returncode} before anything was broken"
            )
        time.sleep(POLL_S)


def _tidy_up(
    faults: list[Fault],
    command: subprocess.Popen[bytes] | None,
    producer: Producer,
    group: ConsumerGroup,
) -> None:
    for fault in faults:
        with _only_told():
            fault.heal()
    if command is not None:
        processes.end(processes.in_session(command.pid), deadline_s=END_DEADLINE_S)
        command.wait(END_DEADLINE_S)
    producer.abort()
    group.stop()
    for work in (producer, group):
        work.join(JOIN_TIMEOUT_S)


def _judged(producer: Producer, group: ConsumerGroup, fault: Fault, code: int) -> dict[str, Any]:
    judged = verdict.judge(producer.acks, group.messages)
    broken = fault.broken
    return {
        "exit_code": code,
        "gap_ms": round(
            verdict.longest_partition_gap_ms(producer.acks, after_ns=fault.injected_ns), 1
        ),
        "acknowledged": judged.acknowledged,
        "lost": judged.lost,
        "duplicated": judged.duplicated,
        "out_of_order": judged.out_of_order,
        "never_acknowledged": len(producer.failures) + producer.unanswered,
        "fault": f"{fault.kind} by {fault.mechanism}",
        "broken": f"{broken.count} {broken.what}",
    }


def _text(options: argparse.Namespace, found: dict[str, Any], to_do: list[str]) -> str:
    return "\n".join(
        [
            f"fault        {found['fault']} on {options.fail}, {found['broken']}",
            f"gap          {found['gap_ms']:.0f} ms, the longest of any partition",
            f"lost         {found['lost']} of {found['acknowledged']} acknowledged messages",
            f"duplicated   {found['duplicated']}",
            f"exit code    {found['exit_code']}",
            *to_do,
        ]
    )
