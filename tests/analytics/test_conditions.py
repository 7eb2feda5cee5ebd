from __future__ import annotations

import json

import pytest

from analytics.job.clusters import ClusterResult, ReplayResult
from analytics.page.conditions import known_figures, parse_objective
from analytics.page.figure import Answer
from analytics.page.report_figures import Figures
from analytics.page.sections import FACTS
from analytics.page.start_page import ClusterSummary
from tests.analytics.commands import replay_command as main
from tests.analytics.shared import NO_TIME


def test_a_wrong_condition_is_one_line_before_anything_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--input", "/nowhere", "--results", "/o", "--fail-on", "outage > 0"]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    said = "jbodlab: condition 'outage > 0': unknown figure 'outage' (did you mean 'outages'?)"
    assert line == said


@pytest.mark.parametrize(
    ("text", "share"), [("99.95", 0.9995), ("99.9 %", 0.999), ("100%", 1.0), ("0.5", 0.005)]
)
def test_an_objective_is_a_percentage(text: str, share: float) -> None:
    assert parse_objective(text) == share


@pytest.mark.parametrize("text", ["", "0", "100.1", "-5", "nan", "99,9", "three nines"])
def test_what_is_no_percentage_is_no_objective(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--input", "/nowhere", "--results", "/o", f"--objective={text}"]) == 1

    said = f"jbodlab: --objective: expected a percentage up to 100, got {text!r}\n"
    assert capsys.readouterr().err == said


def test_every_named_figure_has_one_name() -> None:
    names = known_figures()

    assert len(names) == sum(len(known_figures([figure])) for figure in FACTS)
    assert {"incidents", "open_incidents", "outages", "problems", "availability"} <= names.keys()


@pytest.mark.parametrize(
    ("condition", "code", "said"),
    [
        ("outages > 0", 2, "jbodlab: cluster a: outages > 0: outages is 1\n"),
        ("outages > 1 or incidents != 1", 0, ""),
    ],
)
def test_a_condition_that_holds_is_exit_code_2(
    condition: str,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ones = {
        figure.name: Answer(figure=figure, rows=((1,) * len(figure.columns),), total=1)
        for figure in FACTS
    }
    figures = Figures(span=NO_TIME, answers=ones)
    summary = ClusterSummary(first_ms=None, last_ms=None, end_ms=None, facts={}, incidents=())
    one = ClusterResult(
        report="the text\n", page="/o/report.html", figures=figures, summary=summary
    )
    result = ReplayResult(tables={"outages": "/o/outages"}, clusters={"a": one}, ran_on="local")
    monkeypatch.setattr("analytics.job.command.replay", lambda *_, **__: result)
    arguments = ["--input", "/i", "--results", "/o", "--fail-on", condition]

    assert main(arguments) == code
    assert capsys.readouterr().err == said
    assert main([*arguments, "--output=json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["tables"] == {"outages": "/o/outages"}
    assert (found["ranking"], found["start_page"], found["ran_on"]) == (["a"], None, "local")
    assert found["clusters"]["a"]["page"] == "/o/report.html"
    assert found["clusters"]["a"]["figures"]["outage_counts"]["rows"][0]["outages"] == 1


@pytest.mark.parametrize("option", [["--output=json"], ["--fail-on", "outages > 0"]])
def test_a_question_to_tables_has_no_figures(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--results", "/o", "--as-of", "7", *option]) == 2

    said = "--output json and --fail-on are for the report of a whole log"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ran_on", "size_bytes", "is_said"),
    [
        ("Spark 4.2.1, local[*]", 1 << 20, True),
        ("Spark 4.2.1, local[*]", 1 << 30, False),
        ("Spark 4.2.1, spark://host:7077", 1 << 20, False),
        ("this process", 1 << 20, False),
    ],
)
def test_the_report_says_where_the_local_engine_would_have_finished_sooner(
    ran_on: str, size_bytes: int, is_said: bool
) -> None:
    result = ReplayResult(tables={}, clusters={}, ran_on=ran_on, size_bytes=size_bytes)

    assert ("--engine local would have finished sooner" in result.engine) == is_said
