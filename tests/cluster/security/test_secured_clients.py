"""Unchanged clients of every family, let in in every way: they administer, write, consume in a
group, and go on when a disk dies, or a broker is killed or freezes.

Times are measured and printed, and judged by nobody: pytest -s. The file that the variable
`JBODLAB_TEST_GAPS` names gets a line for each: library, way, fault and seconds.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from lab.cluster import Broker, wait_for
from tests.clients.members import MemberProcess, ProgramProcess
from tests.clients.programs import BY_DEFAULT, NoKafkaError
from tests.cluster.secured import WAYS, Secured

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("secured"),
    # A library that is compiled takes its time, once.
    pytest.mark.timeout(900),
]

RATE = 200
BEGINS_S = 120.0
QUIET_S = 2.0
PLAIN_TEXT = "plain text"
DISK, KILL, FREEZE = FAULTS = ("dead disk", "killed broker", "frozen broker")
GAPS = os.environ.get("JBODLAB_TEST_GAPS")


def _parameter(library: str, way: str, fault: str, *marks: pytest.MarkDecorator) -> object:
    if BY_DEFAULT[library].release is not None:
        marks = (*marks, pytest.mark.kafka)
    return pytest.param(library, way, fault, id=f"{library}-{way}-{fault}", marks=marks)


EACH = [
    # Each way once, over a dead disk; `soak` has the rest.
    _parameter(
        library, way, fault, *(() if number == place and fault == DISK else (pytest.mark.soak,))
    )
    for number, library in enumerate(BY_DEFAULT)
    for fault in FAULTS
    for place, way in enumerate((*WAYS, PLAIN_TEXT))
]


@pytest.mark.parametrize(("library", "way", "fault"), EACH)
def test_a_client_goes_on_over_a_fault(
    secured: Secured, library: str, way: str, fault: str
) -> None:
    gap_s = _gap_s(secured, library, way, fault)
    print(f"longest time without an acknowledgement, {library}, {way}, {fault}: {gap_s:.3f} s")
    if GAPS is not None:
        with Path(GAPS).open("a") as file:
            file.write(f"{library}\t{way}\t{fault}\t{gap_s:.3f}\n")


@contextmanager
def _broken(leader: Broker, topic: str, fault: str) -> Iterator[None]:
    """Let a leader be broken; afterwards it runs again."""
    if fault == DISK:
        with leader.log_dir_of(topic, 0).fails("permission"):
            yield
        # Only the listener of brokers revives a directory.
        assert leader.stop() == 0
        leader.start()
    elif fault == KILL:
        leader.kill()
        try:
            yield
        finally:
            leader.start()
    else:
        leader.freeze()
        try:
            yield
        finally:
            leader.thaw()


def _gap_s(secured: Secured, library: str, way: str, fault: str) -> float:
    """Break a leader under a client; return its longest wait for one answer."""
    cluster = secured.cluster
    try:
        command = BY_DEFAULT[library].command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    door = cluster.bootstrap
    if way != PLAIN_TEXT:
        command, door = [*secured.told(way), *command], secured.door(way)
    topic = f"{library}-{way}-{fault}".replace(" ", "-")
    admin = ProgramProcess(command, door, topic, "nobody", "create")
    try:
        assert admin.ends(BEGINS_S) == 0, admin
    finally:
        admin.close()
    cluster.wait_isr(topic)
    consumer = MemberProcess(command, door, topic, f"group of {topic}", "default")
    producer = MemberProcess(command, door, topic, str(RATE), "produce")
    try:
        _goes_on(producer, consumer, BEGINS_S)
        since = time.monotonic()
        with _broken(cluster.leader(topic, 0), topic, fault):
            time.sleep(QUIET_S)
            _goes_on(producer, consumer, BEGINS_S)
            until = time.monotonic()
            producer.leave()

            def all_read() -> bool:
                return producer.acknowledged.keys() <= {seen.value for seen in consumer.seen}

            wait_for("all that was acknowledged", all_read, BEGINS_S, last_seen=lambda: consumer)
        consumer.leave()
    finally:
        producer.close()
        consumer.close()
    # Else the next directory may have the last replica in sync of the groups' offsets.
    for each in (topic, GROUP_METADATA_TOPIC):
        cluster.wait_isr(each)
    assert producer.errors == []
    times = (at for at in producer.acknowledged.values() if since < at < until)
    return max(b - a for a, b in itertools.pairwise([since, *times, until]))


def _goes_on(producer: MemberProcess, consumer: MemberProcess, deadline_s: float) -> None:
    """Wait until something was written and something consumed after now."""
    now = time.monotonic()

    def goes_on() -> bool:
        producer.assert_runs()
        consumer.assert_runs()
        written = list(producer.acknowledged.values())
        return bool(written and consumer.seen and min(written[-1], consumer.seen[-1].at_s) > now)

    wait_for("both go on", goes_on, deadline_s, last_seen=lambda: (producer, consumer))
