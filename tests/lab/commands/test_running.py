"""`jbodlab run`: what came of a run, its exit code, and what is tidied up afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.commands import breaking, running
from lab.errors import LabError
from lab.findings import Finding, Kind
from lab.machine.interrupts import Interrupts
from lab.rehearsal.facts import CommandFacts, FaultFacts, Verdict
from lab.rehearsal.judgement import judge
from lab.rehearsal.result import to_json
from lab.rehearsal.run import Done
from lab.watch.events import Event
from tests.lab.commands.plans import PLAN
from tests.lab.rehearsal.runs import CLEAN, facts, fault, ns, steady, writer

CLUSTER: Any = SimpleNamespace(bootstrap="h:1", brokers=[1, 2, 3])
OPTIONS: Any = SimpleNamespace(fail="broker-1/1", cluster="default")
UNTIL_THE_END = fault(1, None, name="fault", kind="permission")
NOT_STEADY = Finding(kind=Kind.NOT_STEADY, why="20 s: nothing was asked yet")


def without_effect(**more: Any) -> FaultFacts:
    return fault(1, None, name="fault", kind="permission", **more)


def found(
    messages: Any,
    verdict: Verdict = CLEAN,
    *,
    injected_fault: FaultFacts | None = UNTIL_THE_END,
    code: int | None = 0,
    last_due: dict[int, int] | None = None,
    is_topic_deleted: bool = False,
    **more: Any,
) -> dict[str, Any]:
    known = facts(
        faults=[] if injected_fault is None else [injected_fault],
        writers={
            "producer": writer(
                messages,
                verdict=verdict,
                last_due=last_due or {},
                is_topic_deleted=is_topic_deleted,
            )
        },
        commands={running.APP: CommandFacts(exit_code=code)},
        **more,
    )
    judgement = judge(PLAN, known)
    done = Done(facts=known, judgement=judgement, json=to_json(PLAN, known, judgement, {}))
    return running.judged(done, PLAN)


def verdict(**counts: int) -> Verdict:
    values = {"acknowledged": 100, "read": 100, "lost": 0, "duplicated": 0, "out_of_order": 0}
    return Verdict(**{**values, **counts})


def text(one: dict[str, Any]) -> list[str]:
    return running._text(OPTIONS, one).splitlines()


def test_a_partition_without_an_acknowledgement_until_the_end_has_a_gap_that_did_not_end() -> None:
    silent = steady(0, 1, partition=0)
    one = found([*silent, *steady(0, 10, partition=1)], last_due={0: ns(9)})

    assert "gap          9.1 s in orders-0, not ended" in text(one)


def test_a_gap_that_ended_has_its_length_and_its_partition() -> None:
    back = [*steady(0, 1), *steady(4, 10)]

    assert "gap          3.1 s in orders-0" in text(found(back))


@pytest.mark.parametrize(
    ("program", "counts", "more", "code"),
    [
        (0, {}, {}, 0),
        (3, {}, {}, 3),
        (-9, {}, {}, 137),
        (0, {"lost": 1}, {}, running.LOST),
        (3, {"duplicated": 1}, {}, running.LOST),
        (0, {"unread": 1}, {}, running.NOT_KNOWN),
        (3, {"unread": 1}, {}, 3),
        (0, {}, {"injected_fault": None}, running.NOT_KNOWN),
        (3, {}, {"injected_fault": None}, 3),
        (0, {}, {"broken_off": [NOT_STEADY]}, running.NOT_KNOWN),
        (0, {}, {"injected_fault": without_effect(counts=True, calls_broken=0)}, running.NOT_KNOWN),
        (3, {}, {"injected_fault": without_effect(counts=True, calls_broken=0)}, 3),
        (0, {}, {"injected_fault": without_effect(touched=(), led=())}, running.NOT_KNOWN),
        (0, {}, {"injected_fault": without_effect(problem="no room")}, running.NOT_KNOWN),
        (0, {"lost": 1}, {"broken_off": [NOT_STEADY]}, running.LOST),
        (0, {"duplicated": 1}, {"broken_off": [NOT_STEADY]}, running.LOST),
        (None, {}, {"injected_fault": None}, running.NOT_KNOWN),
    ],
)
def test_the_exit_code_is_the_programs_own_where_the_cluster_did_nothing_wrong(
    program: int | None, counts: dict[str, int], more: dict[str, Any], code: int
) -> None:
    one = found(steady(0, 10), verdict(**counts), code=program, **more)

    assert running.exit_code(one) == code


@pytest.mark.parametrize(
    ("program", "counts", "line"),
    [
        (3, {}, "exit code    3"),
        (3, {"lost": 1}, "exit code    70 (of the program: 3)"),
        (0, {"unread": 1}, "exit code    75 (of the program: 0)"),
    ],
)
def test_the_exit_code_of_the_command_is_shown_with_that_of_the_program(
    program: int, counts: dict[str, int], line: str
) -> None:
    assert line in text(found(steady(0, 10), verdict(**counts), code=program))


def test_messages_that_could_not_be_read_are_unread_and_not_lost_and_the_topic_is_kept() -> None:
    one = found(steady(0, 10), verdict(unread=7))

    lines = text(one)
    assert "lost         0 of 100 acknowledged messages" in lines
    assert "unread       7: nobody knows whether they are lost" in lines
    assert one["topic_kept"]
    assert lines[-1].startswith("topic orders is kept")
    assert lines[-1].endswith(" topics delete orders")


@pytest.mark.parametrize("count", ["lost", "duplicated"])
def test_a_topic_with_lost_or_duplicated_messages_is_kept(count: str) -> None:
    assert found(steady(0, 10), verdict(**{count: 2}))["topic_kept"]


def test_a_topic_that_somebody_deleted_is_not_called_kept() -> None:
    assert not found(steady(0, 10), verdict(unread=7), is_topic_deleted=True)["topic_kept"]


def test_a_topic_without_lost_duplicated_or_unread_messages_is_deleted() -> None:
    assert not found(steady(0, 10))["topic_kept"]


def test_a_program_that_ends_before_the_fault_tested_nothing() -> None:
    one = found(steady(0, 10), injected_fault=None)

    assert one["gap_ms"] is None
    assert one["doubts"] == [
        "fault was never injected: app ended before it was due, so nothing was tested"
    ]


@pytest.fixture
def topics_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise LabError("cannot delete topic x: no answer")

    monkeypatch.setattr(CLUSTER, "delete_topics", refuse, raising=False)


@pytest.mark.usefixtures("topics_stay")
def test_a_topic_that_stays_does_not_take_the_verdict_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running._topic_deleted(CLUSTER, "x", Interrupts()):
        pass

    assert capsys.readouterr().err == "jbodlab run: cannot delete topic x: no answer\n"


@pytest.mark.usefixtures("topics_stay")
@pytest.mark.parametrize("reason", [KeyboardInterrupt(), LabError("the cluster is gone")])
def test_a_topic_that_stays_does_not_hide_why_there_is_an_end(
    capsys: pytest.CaptureFixture[str], reason: BaseException
) -> None:
    with (
        pytest.raises(type(reason)) as caught,
        running._topic_deleted(CLUSTER, "x", Interrupts()),
    ):
        raise reason

    assert caught.value is reason
    assert capsys.readouterr().err == "jbodlab run: cannot delete topic x: no answer\n"


def test_a_topic_that_is_kept_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[str] = []
    monkeypatch.setattr(CLUSTER, "delete_topics", deleted.append, raising=False)

    with running._topic_deleted(CLUSTER, "x", Interrupts()) as keep:
        keep()
    assert deleted == []

    with running._topic_deleted(CLUSTER, "x", Interrupts()):
        pass
    assert deleted == ["x"]


@pytest.mark.parametrize("injected", [[], [Event(t_ns=0, source="fault", kind="injected")]])
def test_who_interrupts_reads_what_a_fault_left_to_be_done(
    injected: list[Event], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def afterwards(*_: object, reviving: bool) -> tuple[list[str], list[str]]:
        assert not reviving
        return ["broker-1/1 is still offline: jbodlab heal --revive"], []

    monkeypatch.setattr(breaking, "afterwards", afterwards)

    with (
        pytest.raises(KeyboardInterrupt),
        running._remaining_work_shown("default", CLUSTER, injected),
    ):
        raise KeyboardInterrupt

    line = "jbodlab: broker-1/1 is still offline: jbodlab heal --revive\n"
    assert capsys.readouterr().err == (line if injected else "")
