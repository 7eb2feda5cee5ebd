"""Applications of unmodified client libraries, each as processes that know nothing of this cluster.

Their sources are in `tests/clients`. Times are measured and printed, and judged by nobody: pytest
-s.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.members import MemberProcess, Seen, longest_gap_s, seen_by
from tests.clients.programs import PROGRAMS, NoKafkaError
from tests.cluster.group_stage import GOES_ON_S, committed, coordinator
from tests.cluster.harness import Load, read_all, wait_for
from tests.cluster.scenes import Scene, Stage

pytestmark = [
    pytest.mark.cluster,
    # A library that is compiled takes its time, once.
    pytest.mark.timeout(900),
]

IN_EVERY_RUN = ("java-848", "franz-go", "kafkajs")
PARTITIONS = 4
JOINS_S = 90.0
"""Within which a process starts and has its share: on a busy machine a JVM takes long."""


def _parameter(name: str) -> Any:
    marks = [] if name in IN_EVERY_RUN else [pytest.mark.soak]
    if PROGRAMS[name].release is not None:
        marks.append(pytest.mark.kafka)
    return pytest.param(name, marks=marks)


@pytest.fixture(params=[_parameter(name) for name in PROGRAMS])
def application(request: pytest.FixtureRequest) -> Iterator[Application]:
    """One for each library that can be had."""
    try:
        command = PROGRAMS[request.param].command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    found = Application(request.param, command)
    yield found
    for member in found.all_members:
        member.close()


class Application:
    """State that the processes of one program share: their group, and what it has done.

    Attributes:
        name: Of the library.
        group: Its consumer group.
        members: Those that are in the group.
        all_members: Also those that have left.
    """

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.group = f"of {name}"
        self.members: list[MemberProcess] = []
        self.all_members: list[MemberProcess] = []
        self._command = [*command]

    def join(self, scene: Scene, topic: str) -> None:
        """Let one more process join the group."""
        where = (scene.cluster.bootstrap, topic, self.group, PROGRAMS[self.name].protocol)
        member = MemberProcess(self._command, *where)
        self.members.append(member)
        self.all_members.append(member)

    def leave(self) -> None:
        """Let the one that came last leave the group."""
        self.members.pop().leave()

    def wait_for(self, what: str, condition: Any, deadline_s: float = GOES_ON_S) -> None:
        """Wait until something holds; all the time every member has to run."""

        def holds() -> bool:
            for member in self.members:
                member.assert_runs()
            return bool(condition())

        wait_for(f"{self.name}: {what}", holds, deadline_s, last_seen=lambda: self.members)

    def wait_shared(self, *shares: int) -> None:
        """Wait until the members have so many partitions, each its own."""

        def is_shared() -> bool:
            held = [member.assigned for member in self.members]
            return [*map(len, held)] == [*shares] and len(set().union(*held)) == sum(shares)

        self.wait_for(f"shares of {shares}", is_shared, JOINS_S)

    def seen(self) -> list[Seen]:
        """Every record that was consumed, as often as it was."""
        return seen_by(self.all_members)

    def consumed(self) -> int:
        """How many different records were consumed."""
        return len({(record.partition, record.offset) for record in self.seen()})


def test_application_of_the_clients_matrix_goes_on_after_a_restart_and_two_dead_directories(
    application: Application, group_stage: Stage
) -> None:
    with group_stage.scene() as scene:
        ledger = scene.topic(PARTITIONS, records=0, min_insync_replicas="2")

        def told() -> dict[int, int]:
            return committed(scene.cluster, application.group, ledger.topic)

        ledger.produce(80)
        application.join(scene, ledger.topic)
        application.join(scene, ledger.topic)
        application.wait_shared(2, 2)
        application.wait_for("all committed", lambda: sum(told().values()) == 80)
        assert application.consumed() == 80

        application.leave()
        application.wait_shared(PARTITIONS)
        before, seen_before = told(), len(application.seen())
        scene.restart(*scene.cluster.broker_ids)
        assert told() == before
        ledger.produce(20)
        application.wait_for("all committed after it", lambda: sum(told().values()) == 100)
        again = [r for r in application.seen()[seen_before:] if r.offset < before[r.partition]]
        assert not again, "what was committed is consumed again"
        assert application.consumed() == 100

        application.join(scene, ledger.topic)
        application.wait_shared(2, 2)
        with Load(scene.cluster.bootstrap, ledger.topic, rate=200) as load:
            _catches_up(scene, application, load, "both work")
            for which in ("coordinator", "partition"):
                _lose_a_directory(scene, application, load, which)
        _catches_up(scene, application, load, "the end of the load")
        application.leave()
        application.leave()

        acknowledged = {(*place, str(number)) for number, place in load.acknowledged.items()}
        lost = acknowledged - {(r.partition, r.offset, r.value) for r in application.seen()}
        assert not lost, f"acknowledged and never consumed: {sorted(lost)[:5]}"
        for member in application.all_members:
            for partition, offset in member.committed.items():
                assert told()[partition] >= offset, member


def _lose_a_directory(scene: Scene, application: Application, load: Load, which: str) -> None:
    """Break the coordinator's or a partition's; what was acknowledged by then is committed."""
    if which == "coordinator":
        broker, path = coordinator(scene, application.group)
    else:
        broker, path = scene.leader(load, 0)
    seen_before = len(application.seen()) - application.consumed()
    since_s = time.monotonic()
    scene.break_and_wait("chmod000", broker, path)
    _catches_up(scene, application, load, f"without the directory of its {which}")
    gap_s = longest_gap_s(application.seen(), since_s)
    again = len(application.seen()) - application.consumed() - seen_before
    print(
        f"{application.name}: directory of its {which} lost: {gap_s:.2f} s without a record of "
        f"one partition, {again} records seen twice, {len(load.errors)} errors of the producer"
    )
    # The next one might be the second of three that a partition loses.
    scene.make_whole()


def _catches_up(scene: Scene, application: Application, load: Load, when: str) -> None:
    """Wait until all is committed that is acknowledged by now."""
    wait_for("records in every partition", lambda: len(_ends(load)) == PARTITIONS)
    ends = _ends(load)

    def is_committed() -> bool:
        told = committed(scene.cluster, application.group, load.topic)
        return all(told[partition] >= end for partition, end in ends.items())

    application.wait_for(f"all committed: {when}", is_committed)


def _ends(load: Load) -> dict[int, int]:
    """The offset after the last acknowledged record of each partition."""
    ends: dict[int, int] = {}
    for partition, offset in list(load.acknowledged.values()):
        ends[partition] = max(offset + 1, ends.get(partition, 0))
    return ends


def test_a_writer_that_never_asks_for_another_leader_is_forwarded_to_it(stage: Stage) -> None:
    try:
        command = PROGRAMS["kafka-go"].command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    with stage.scene() as scene:
        ledger = scene.topic(PARTITIONS, records=0, min_insync_replicas="2")
        writer = MemberProcess(command, scene.cluster.bootstrap, ledger.topic, "400", "stay")

        def wait_written(more: int) -> None:
            """Wait until all numbers are acknowledged that come in so many more."""
            last = max(map(int, writer.acknowledged), default=0) + more
            wanted = {str(number) for number in range(last)}
            wait_for(
                f"the numbers up to {last} written",
                lambda: wanted <= writer.acknowledged.keys() or writer.errors,
                GOES_ON_S,
                last_seen=lambda: writer,
            )

        try:
            wait_written(400)
            leader, path = scene.leader(ledger)
            scene.break_and_wait("chmod000", leader, path)
            wait_written(2_000)
            writer.leave()
        finally:
            writer.close()

        assert not writer.errors, "it gave records up"
        there = {
            value.decode()
            for records in read_all(scene.cluster.bootstrap, ledger.topic, PARTITIONS).values()
            for _, value in records
        }
        assert writer.acknowledged.keys() <= there
