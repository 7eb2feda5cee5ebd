"""A plan on several engines, several times: what is printed, kept and answered, and the refusals.

The runs are made up; everything behind them is the command's own.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jbodlab.cli.command import add, commands
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from lab.cluster import ClusterSpec, kafka_servers
from lab.cluster.engine import ENGINE_VARIABLE, Engine
from lab.errors import WRONG_USE
from lab.machine.interrupts import Interrupts
from lab.machine.kafka_jars import NoKafkaError
from lab.plan.plan import Attach, ClusterKeys, Plan, cluster_of
from lab.rehearsal import command, run
from lab.rehearsal.facts import Verdict
from tests.lab.rehearsal.runs import EVENTS, PLAN, facts, fault, kept, sent, steady, writer

OLD, NEW = "kafka:3.9.1", "kafka:4.3.1"
LOST = Verdict(acknowledged=9, read=8, lost=1, duplicated=0, out_of_order=0)
OBJECTIVES = ("writers.lost == 0", "first.gap < 2s")


def found(gap_s: float, lost: int = 0) -> dict[str, Any]:
    """A run whose clients wait so long for an acknowledgement."""
    waiting = [sent(1 + n / 10, 1.001 + gap_s) for n in range(round(gap_s * 10))]
    messages = [*steady(0, 1), *waiting, *steady(1 + gap_s, 10)]
    one = writer(messages, verdict=LOST) if lost else writer(messages)
    made = facts(None, *EVENTS, faults=[fault()], writers={"writers": one})
    return kept(made, *OBJECTIVES)


class Made:
    """Carries nothing out: the results of each engine are given, in the order of its runs."""

    def __init__(self, results: dict[str, list[dict[str, Any]]]) -> None:
        self.order: list[str] = []
        self.folders: list[Path] = []
        self.needs: list[ClusterSpec | Attach] = []
        self._left = {name: list(each) for name, each in results.items()}

    def __call__(
        self, plan: Plan, folder: Path, tell: object, *, engine: Engine, **_: Any
    ) -> object:
        del tell
        self.order.append(str(engine))
        self.folders.append(folder)
        self.needs.append(plan.cluster)
        json_of_run = self._left[str(engine)].pop(0)
        return type("Done", (), {"json": json_of_run})


class Rehearse:
    """The command, with the plan in a file of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results = folder / "results"
        self.fetched: list[str] = []
        self._plan = folder / "p.yaml"
        self._plan.write_text(PLAN.replace("OBJECTIVES", ", ".join(OBJECTIVES)), "utf-8")
        self._monkeypatch = monkeypatch
        monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
        monkeypatch.setattr(kafka_servers, "fetch", self._fetch)

    def __call__(self, *words: str, made: Made, is_json: bool = False) -> int:
        self._monkeypatch.setattr(run, "run", made)
        parser = Parser("jbodlab rehearse", "rehearse")
        add(parser, commands()["rehearse"].arguments)
        options = parser.parse_args([str(self._plan), "--results", str(self.results), *words])
        return command.run(options, Output(is_json=is_json), Interrupts())

    def attach(self) -> None:
        """Let the plan attach to a cluster."""
        lines = self._plan.read_text("utf-8").splitlines()
        kept_lines = [line for line in lines if not line.startswith("cluster:")]
        self._plan.write_text("\n".join([*kept_lines, "attach: {cluster: mine}"]) + "\n", "utf-8")

    def _fetch(self, engines: list[Engine]) -> None:
        self.fetched += map(str, engines)


@pytest.fixture
def rehearse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearse:
    return Rehearse(tmp_path, monkeypatch)


def three() -> Made:
    return Made(
        {
            "jbodlab": [found(0.4), found(0.2), found(0.3)],
            OLD: [found(3), found(1), found(5)],
            NEW: [found(1.5, lost=1), found(1.0), found(0.5)],
        }
    )


AGAINST = ("--against", OLD, "--against", NEW, "--repeat", "3")


def test_every_engine_runs_the_plan_so_often_in_the_order_of_the_command(
    rehearse: Rehearse,
) -> None:
    made = three()
    rehearse(*AGAINST, made=made)

    assert made.order == ["jbodlab"] * 3 + [OLD] * 3 + [NEW] * 3
    assert rehearse.fetched == ["jbodlab", OLD, NEW]
    names = [str(folder.relative_to(rehearse.results)) for folder in made.folders]
    assert names == [
        f"{engine}/run-{number}"
        for engine in ("jbodlab", "kafka-3.9.1", "kafka-4.3.1")
        for number in (1, 2, 3)
    ]


def test_the_table_has_a_column_for_each_engine_with_verdicts_medians_and_spread(
    rehearse: Rehearse, capsys: pytest.CaptureFixture[str]
) -> None:
    rehearse(*AGAINST, made=three())

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"jbodlab {OLD} {NEW}" in lines
    assert "verdict 3 PASS 2 FAIL, 1 PASS 2 PASS, 1 FAIL" in lines
    (gap,) = (line for line in lines if line.startswith("first.gap < 2s met"))
    assert gap.removeprefix("first.gap < 2s ") == (
        "met 3 of 3 (400 ms in orders-0; 300 ms in orders-0 to 500 ms in orders-0) "
        "met 1 of 3 (3.1 s in orders-0; 1.1 s in orders-0 to 5.1 s in orders-0) "
        "met 3 of 3 (1.1 s in orders-0; 600 ms in orders-0 to 1.6 s in orders-0)"
    )
    (lost,) = (line for line in lines if line.startswith("writers.lost == 0 met"))
    assert lost.removeprefix("writers.lost == 0 ") == (
        "met 3 of 3 (0; 0 to 0) met 3 of 3 (0; 0 to 0) met 2 of 3 (0; 0 to 1)"
    )


def test_one_page_and_the_verdicts_of_all_engines_are_kept(rehearse: Rehearse) -> None:
    rehearse(*AGAINST, made=three())

    page = (rehearse.results / "report.html").read_text("utf-8")
    for column in ("jbodlab", OLD, NEW, "met 2 of 3 (0; 0 to 1)", "2 FAIL, 1 PASS"):
        assert column in page
    assert json.loads((rehearse.results / "engines.json").read_text("utf-8")) == {
        "jbodlab": ["PASS"] * 3,
        OLD: ["FAIL", "PASS", "FAIL"],
        NEW: ["FAIL", "PASS", "PASS"],
    }
    spread = json.loads((rehearse.results / "distribution.json").read_text("utf-8"))
    gaps = {name: each["first.gap"] for name, each in spread.items()}
    assert [gaps[OLD][key] for key in ("min", "median", "max")] == pytest.approx([1.1, 3.1, 5.1])


def test_json_has_every_run_of_every_engine(
    rehearse: Rehearse, capsys: pytest.CaptureFixture[str]
) -> None:
    rehearse(*AGAINST, made=three(), is_json=True)

    printed = json.loads(capsys.readouterr().out)
    assert [one["verdict"] for one in printed] == [
        *["PASS"] * 3,
        *["FAIL", "PASS", "FAIL"],
        *["FAIL", "PASS", "PASS"],
    ]


def test_junit_has_a_suite_for_each_run_that_names_its_engine(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    file = tmp_path / "verdict.xml"
    rehearse(*AGAINST, "--junit", str(file), made=three())

    suites = ElementTree.parse(file).getroot()
    assert [suite.attrib["name"].rpartition(" ")[2] for suite in suites] == [
        f"[{engine}]" for engine in ("jbodlab", OLD, NEW) for _ in range(3)
    ]
    assert [int(suite.attrib["failures"]) for suite in suites] == [0, 0, 0, 1, 0, 1, 2, 0, 0]


@pytest.mark.parametrize(
    ("engine", "against", "code"),
    [("jbodlab", OLD, 0), (OLD, "jbodlab", 1), (NEW, "jbodlab", 1)],
)
def test_the_exit_code_is_that_of_the_first_engine(
    rehearse: Rehearse, engine: str, against: str, code: int
) -> None:
    words = ("--engine", engine, "--against", against, "--repeat", "3")
    assert rehearse(*words, made=three()) == code


def test_options_of_the_jvm_are_for_the_engines_that_have_one(rehearse: Rehearse) -> None:
    made = three()

    assert rehearse("--against", OLD, "--jvm-options=-Xmx1g", made=made) == 0
    assert made.order == ["jbodlab", OLD]


def test_the_command_line_comes_before_what_the_plan_says_of_nodes(rehearse: Rehearse) -> None:
    made = three()
    words = ("--engine", OLD, "--controllers", "3", "--jvm-options=-Xmx1g", "--config", "a=b")
    rehearse(*words, made=made)
    rehearse("--engine", NEW, "--combined", made=made)

    of_plan = cluster_of(ClusterKeys())
    assert made.needs == [
        replace(of_plan, controllers=3, jvm_options="-Xmx1g", config={"a": "b"}),
        replace(of_plan, combined=True),
    ]


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("--against", OLD, "--against", OLD), f"the engine {OLD} is named twice"),
        (("--engine", OLD, "--against", OLD), f"the engine {OLD} is named twice"),
        (("--against", "jbodlab"), "the engine jbodlab is named twice"),
        (("--against", "kafak"), "expected an engine (jbodlab, "),
        (("--against", "kafka:2.8.0"), "engine kafka:2.8.0: releases before 3.7 do not know"),
        (("--controllers", "2"), "the engine jbodlab has an odd number of controllers, not 2"),
        (("--against", OLD, "--combined"), "a node of the engine jbodlab has one role"),
        (("--jvm-options=-Xmx1g",), "the engine jbodlab has no JVM for '-Xmx1g'"),
        (("--engine", OLD, "--combined", "--controllers", "3"), "combined nodes are the"),
    ],
)
def test_engines_that_cannot_be_compared_are_refused_in_one_line_before_anything_runs(
    rehearse: Rehearse, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], refused: str
) -> None:
    made = three()
    assert rehearse(*words, made=made) == WRONG_USE

    assert made.order == []
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"jbodlab rehearse: {refused}")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--against", OLD), "against"),
        (("--engine", OLD), "engine"),
        (("--controllers", "3"), "controllers"),
        (("--combined",), "combined"),
        (("--jvm-options=-Xmx1g",), "jvm-options"),
        (("--config", "a=b"), "config"),
    ],
)
def test_a_plan_that_attaches_to_a_cluster_takes_no_options_of_nodes(
    rehearse: Rehearse, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], option: str
) -> None:
    rehearse.attach()
    made = three()
    assert rehearse(*words, made=made) == WRONG_USE

    assert made.order == []
    assert capsys.readouterr().err == (
        f"jbodlab rehearse: --{option} has no effect on a plan that attaches to a cluster\n"
    )


def test_an_engine_whose_jars_are_missing_is_told_before_the_first_engine_runs(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(engines: list[Engine]) -> None:
        raise NoKafkaError(f"no jars of {engines[1]}")

    monkeypatch.setattr(kafka_servers, "fetch", fetch)
    made = three()
    assert rehearse("--against", OLD, made=made) == 2

    assert made.order == []
    assert capsys.readouterr().err == f"jbodlab rehearse: INCONCLUSIVE: no jars of {OLD}\n"
