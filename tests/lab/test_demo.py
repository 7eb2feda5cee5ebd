"""`jbodlab demo` on several engines: what is printed, kept and answered, and the refusals.

The stories are made up; everything around them is the command's own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jbodlab.cli.command import add, commands
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser, UsageError
from lab import demo
from lab.cluster import ClusterSpec, kafka_servers
from lab.cluster.engine import ENGINE_VARIABLE, EngineError
from lab.demo import Story
from lab.machine.interrupts import Interrupts
from lab.results import Results
from tests.lab.rehearsal.runs import EVENTS, GOOD, facts, fault, kept, steady

OLD, NEW = "kafka:3.9.1", "kafka:4.3.1"
PASSED = Story(kept(GOOD), [])
FAILED = Story(
    kept(facts(steady(0, 10), *EVENTS, faults=[fault()]), "first.gap < 1ms"), ["it took long"]
)


class Demo:
    """The command; each engine tells the story that is given."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results = folder / "results"
        self.stories = {"jbodlab": PASSED, OLD: FAILED, NEW: PASSED}
        self.shapes: list[ClusterSpec] = []
        self.folders: list[str] = []
        self.fetched: list[str] = []
        monkeypatch.setenv("JBODLAB_STATE_DIR", str(folder / "state"))
        monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
        monkeypatch.setattr(kafka_servers, "fetch", lambda all: self.fetched.extend(map(str, all)))
        monkeypatch.setattr(demo, "_story", self._story)

    def __call__(self, *words: str, is_json: bool = False) -> int:
        parser = Parser("jbodlab demo", "demo")
        add(parser, commands()["demo"].arguments)
        given = ["--no-spark", "--results", str(self.results), *words]
        options = parser.parse_args(given)
        return demo.run(options, Output(is_json=is_json), Interrupts())

    def _story(
        self, shape: ClusterSpec, _user: Any, _files: Any, results: Results, *_: Any, **__: Any
    ) -> Story:
        self.shapes.append(shape)
        self.folders.append(str(results.folder.relative_to(self.results)))
        return self.stories[str(shape.engine)]


@pytest.fixture
def against(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    return Demo(tmp_path, monkeypatch)


def test_each_engine_tells_its_story_in_a_folder_of_its_own(against: Demo) -> None:
    against("--against", OLD, "--against", NEW)

    assert [str(shape.engine) for shape in against.shapes] == ["jbodlab", OLD, NEW]
    assert against.folders == ["jbodlab", "kafka-3.9.1", "kafka-4.3.1"]
    assert against.fetched == ["jbodlab", OLD, NEW]


def test_one_table_one_page_and_the_verdicts_are_kept(
    against: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    against("--against", OLD)

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"jbodlab {OLD}" in lines
    assert "verdict PASS FAIL" in lines
    assert f"{OLD}: FAILED: it took long" in lines
    page = (against.results / "report.html").read_text("utf-8")
    assert OLD in page
    verdicts = json.loads((against.results / "engines.json").read_text("utf-8"))
    assert verdicts == {"jbodlab": ["PASS"], OLD: ["FAIL"]}
    assert "verdict" in (against.results / "demo.txt").read_text("utf-8")


def test_json_has_the_result_of_each_engine(
    against: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    against("--against", OLD, is_json=True)

    printed = capsys.readouterr()
    assert [one["verdict"] for one in json.loads(printed.out)] == ["PASS", "FAIL"]
    assert "Side by side" in printed.err


def test_json_of_one_engine_is_its_result(
    against: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    against(is_json=True)

    assert json.loads(capsys.readouterr().out)["verdict"] == "PASS"
    assert against.folders == ["."]


def test_the_exit_code_is_that_of_the_first_engine(against: Demo) -> None:
    assert against("--against", OLD) == 0


def test_a_first_engine_whose_story_fails_makes_the_exit_code_1(against: Demo) -> None:
    assert against("--engine", OLD, "--against", NEW) == 1


def test_options_of_the_jvm_are_for_the_engines_that_have_one(against: Demo) -> None:
    against("--against", OLD, "--jvm-options=-Xmx1g")

    assert [shape.jvm_options for shape in against.shapes] == ["", "-Xmx1g"]


def test_nodes_are_as_the_command_line_says(against: Demo) -> None:
    against("--engine", OLD, "--against", NEW, "--controllers", "3", "--config", "a=b")

    assert [(shape.controllers, shape.config) for shape in against.shapes] == [
        *2 * [(3, {"a": "b"})]
    ]


def test_combined_nodes_are_as_many_as_brokers(against: Demo) -> None:
    against("--engine", OLD, "--combined")

    (shape,) = against.shapes
    assert shape.combined
    assert shape.nodes_text == "3 brokers (controllers as well)"


def test_an_engine_without_such_nodes_is_refused_before_the_first_one_runs(against: Demo) -> None:
    with pytest.raises(
        EngineError, match="the engine jbodlab has an odd number of controllers, not 2"
    ):
        against("--engine", OLD, "--against", "jbodlab", "--controllers", "2")
    assert not against.shapes


def test_an_engine_that_is_named_twice_is_refused(against: Demo) -> None:
    with pytest.raises(EngineError, match=f"the engine {OLD} is named twice"):
        against("--engine", OLD, "--against", OLD)
    assert not against.shapes


def test_no_cluster_is_kept_of_several(against: Demo) -> None:
    with pytest.raises(UsageError, match="--keep has no effect with --against"):
        against("--keep", "--against", OLD)
    assert not against.shapes
