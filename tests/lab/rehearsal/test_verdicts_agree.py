"""Text, JSON, JUnit, page and exit code say the same of each kind of failure.

Each kind is judged as a plan of `rehearse`, and what needs no plan of its own by `run` as well.
All output is read as somebody outside reads it, and compared with the expected verdict.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import unescape
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from jbodlab.vocabulary.ids import TopicPartition
from lab.commands import running
from lab.demo import Story
from lab.findings import Finding, Kind, Outcome
from lab.plan.plan import Plan
from lab.plan.reader import read
from lab.rehearsal import command
from lab.rehearsal.facts import CommandFacts, Counted, Facts, StreamsFacts, Verdict
from lab.rehearsal.judgement import judge
from lab.rehearsal.result import to_json
from lab.rehearsal.run import Done
from lab.report import junit, page
from lab.screen import Screen
from tests.lab.commands.plans import PLAN as RUN
from tests.lab.rehearsal.runs import (
    CLEAN,
    COUNTING,
    P0,
    PLAN,
    TRANSACTIONAL,
    facts,
    fault,
    ns,
    steady,
    transaction,
    writer,
)

MESSAGES = steady(0, 10)
FAIL, DOUBT, PASS = Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS


def counts(**more: int) -> Verdict:
    return replace(CLEAN, **{"acknowledged": 9, "read": 9, **more})


def of(**more: Any) -> Facts:
    """A run of one producer whose disk dies, which lacks nothing but what is named."""
    mine = {"verdict": more.pop("verdict", counts()), **more.pop("client", {})}
    values = {"faults": [fault()], "writers": {"writers": writer(MESSAGES, **mine)}, **more}
    return facts(**values)


def broken_off(kind: Kind, **more: Any) -> Facts:
    return of(broken_off=(Finding(kind=kind, **more),))


def transactional(**more: Any) -> Facts:
    mine = {"transactions": [transaction(1, 1.1)], "torn": 0, "due": 200}
    return of(**{"stuck": (), **more, "client": {**mine, **more.get("client", {})}})


def counted(*values: int, **more: Any) -> Facts:
    return of(streams={"words": StreamsFacts(counted=Counted(*values), exit_code=0)}, **more)


@dataclass(frozen=True)
class Case:
    found: Facts
    outcome: Outcome
    kinds: str
    objective: str = "writers.errors == 0"
    text: str = PLAN


CASES = {
    "nothing": Case(of(), PASS, ""),
    "lost messages": Case(of(verdict=counts(lost=3)), FAIL, "lost"),
    "lost messages that an objective names": Case(
        of(verdict=counts(lost=3)), FAIL, "lost", "writers.lost == 0"
    ),
    "torn transactions": Case(transactional(client={"torn": 2}), FAIL, "torn", text=TRANSACTIONAL),
    "torn transactions and lost messages": Case(
        transactional(client={"torn": 2}, verdict=counts(lost=3)),
        FAIL,
        "lost torn",
        text=TRANSACTIONAL,
    ),
    "a last stable offset that stands": Case(
        transactional(stuck=(P0,)), FAIL, "stuck", text=TRANSACTIONAL
    ),
    "words that were not counted": Case(
        counted(7, 3, 0), FAIL, "missing", "words.exit == 0", COUNTING
    ),
    "words that were counted twice": Case(
        counted(7, 0, 3), FAIL, "excess", "words.exit == 0", COUNTING
    ),
    "a lost message in a run that is doubted": Case(
        of(verdict=counts(lost=1), broken_off=(Finding(kind=Kind.NOT_STEADY, why="5 s: x"),)),
        FAIL,
        "lost not_steady",
    ),
    "an objective that is missed": Case(of(), FAIL, "missed", "first.gap < 1ms"),
    "an objective that is missed and <warns>": Case(
        of(), PASS, "warned", '{that: "first.gap < 1ms", severity: warn}'
    ),
    "a run that was aborted": Case(
        broken_off(Kind.ABORTED, subject="isr_full == 1", why="isr_full is 0"), FAIL, "aborted"
    ),
    "no steady state": Case(broken_off(Kind.NOT_STEADY, why="5 s: x"), DOUBT, "not_steady"),
    "an entry whose time never came": Case(
        broken_off(Kind.SKIPPED, subject="crash", why="x"), DOUBT, "skipped"
    ),
    "an action that failed": Case(
        broken_off(Kind.NOT_DONE, subject="move", why="<no> & 'such'"), DOUBT, "not_done"
    ),
    "a fault that stays": Case(
        broken_off(Kind.NOT_REVERTED, subject="first", why="x"), DOUBT, "not_reverted"
    ),
    "a fault that was never injected": Case(of(faults=[]), DOUBT, "never_injected"),
    "a fault that was refused": Case(
        of(faults=[fault(problem="not injected: no room")]), DOUBT, "not_injected"
    ),
    "a fault without effect": Case(
        of(faults=[fault(counts=True, calls_broken=0)]), DOUBT, "no_effect"
    ),
    "a directory that was dead before": Case(
        of(faults=[fault(touched=(), led=())]), DOUBT, "nothing_hit"
    ),
    "a fault of partitions that nobody writes to": Case(
        of(faults=[fault(touched=(TopicPartition("orders", 1),))]), DOUBT, "nothing_sent"
    ),
    "a client that ended": Case(of(client={"failure": "exit code 9"}), DOUBT, "ended"),
    "a client that fell behind": Case(of(client={"due": 200}), DOUBT, "behind"),
    "a client that nobody answers": Case(
        of(writers={"writers": writer([], verdict=counts())}), DOUBT, "unanswered nothing_sent"
    ),
    "partitions that could not be read": Case(
        broken_off(Kind.NOT_READ, subject="orders-0", count=1), DOUBT, "not_read"
    ),
    "an end that never came": Case(
        broken_off(Kind.NO_END, subject="first.elected", why="5 s"), DOUBT, "no_end"
    ),
    "a partition without leader": Case(
        broken_off(Kind.NO_LEADER, subject="orders-0", count=1), DOUBT, "no_leader"
    ),
    "a topic that was deleted": Case(broken_off(Kind.DELETED, subject="orders"), DOUBT, "deleted"),
    "messages that could not be read": Case(of(verdict=counts(unread=4)), DOUBT, "unread"),
    "an application that has counted nothing": Case(
        counted(0, 7, 0), DOUBT, "nothing_counted", "words.exit == 0", COUNTING
    ),
    "what nobody could measure": Case(
        of(not_measured={"elected": "no log"}), DOUBT, "not_measured", "first.elected < 1s"
    ),
    "a busy machine": Case(of(noise_ns=ns(0.4)), PASS, "busy"),
}
IN_BOTH = ("warned", "missed", "not_measured")
"""Findings of objectives; JUnit has those by the case of the objective."""
OF_RUN = [
    name
    for name, case in CASES.items()
    if case.text is PLAN and case.objective == CASES["nothing"].objective
]


def test_every_kind_of_finding_has_a_case() -> None:
    seen = {kind for case in CASES.values() for kind in case.kinds.split()}

    assert seen == {kind.name.lower() for kind in Kind}


def judged(plan: Plan, found: Facts) -> dict[str, Any]:
    run = to_json(plan, found, judge(plan, found), {"cluster": "jbodlab"})
    loaded: dict[str, Any] = json.loads(json.dumps(run))
    return loaded


def printed(run: Mapping[str, Any]) -> str:
    stream = io.StringIO()
    command._print(dict(run), Screen(stream))
    return stream.getvalue()


def told(run: Mapping[str, Any], weights: tuple[str, ...]) -> list[str]:
    return [one["text"] for one in run["findings"] if one["weight"] in weights]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_printer_says_the_verdict_and_every_finding(case: Case) -> None:
    run = judged(read(case.text.replace("OBJECTIVES", case.objective), "p.yaml"), case.found)

    assert " ".join(one["kind"] for one in run["findings"]) == case.kinds
    assert run["verdict"] == case.outcome.name
    assert page.worst([run]) == case.outcome.name
    assert Story(run, []).exit_code == case.outcome.value
    assert bool(Story(run, []).lines) == (case.outcome is not PASS)

    suite = ElementTree.fromstring(junit.xml({"jbodlab": [run]}))[0]
    failures = " ".join(one.attrib["message"] for one in suite.iter("failure"))
    errors = " ".join(one.attrib["message"] for one in suite.iter("error"))
    assert bool(failures) == bool(told(run, ("breach", "miss")))
    assert bool(errors) == bool(told(run, ("doubt",)))
    assert (bool(failures) or bool(errors)) == (case.outcome is not PASS)
    assert int(suite.attrib["failures"]) == len([*suite.iter("failure")])
    assert int(suite.attrib["errors"]) == len([*suite.iter("error")])

    screen, html = printed(run), unescape(page.page([run]))
    assert case.outcome.name in screen
    for one in run["findings"]:
        if one["weight"] != "warning":
            assert one["text"] in (errors if one["weight"] == "doubt" else failures)
        assert one["text"] in html
        assert (one["subject"] if one["kind"] in IN_BOTH else one["text"]) in screen


@pytest.mark.parametrize("name", OF_RUN)
def test_a_run_has_the_findings_of_a_rehearsal(name: str) -> None:
    case = CASES[name]
    faults = [replace(one, name="fault") for one in case.found.faults.values()]
    mine: dict[str, Any] = {
        "faults": {one.name: one for one in faults},
        "writers": {"producer": case.found.writers["writers"]},
        "commands": {running.APP: CommandFacts(exit_code=0)},
    }
    found = replace(case.found, **mine)
    judgement = judge(RUN, found)
    done = Done(facts=found, judgement=judgement, json=to_json(RUN, found, judgement, {}))

    run = running.judged(done, RUN)

    assert " ".join(one["kind"] for one in run["findings"]) == case.kinds
    assert running.exit_code(run) == {PASS: 0, FAIL: 70, DOUBT: 75}[case.outcome]
    options: Any = SimpleNamespace(fail="broker-1/1", cluster="default")
    text = running._text(options, run)
    assert f"exit code    {running.exit_code(run)}" in text
    for one in told(run, ("doubt", "warning")):
        assert one in text


def test_junit_is_xml_whatever_a_program_has_printed() -> None:
    found = of(client={"failure": "exit code 1; \x00\x1b[31m\udcff <no> & \uffff"})
    run = judged(read(PLAN.replace("OBJECTIVES", "writers.errors == 0"), "p.yaml"), found)

    (error,) = ElementTree.fromstring(junit.xml({"jbodlab": [run]})).iter("error")

    assert error.attrib["message"].endswith("exit code 1; \ufffd\ufffd[31m\ufffd <no> & \ufffd")
