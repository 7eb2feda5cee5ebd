"""Lines of the report as text, from answers made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analytics.page.conditions import known_figures
from analytics.page.figure import Answer
from analytics.page.report_figures import Figures
from analytics.page.report_text import text_of
from analytics.page.sections import FACTS, FIGURES
from analytics.page.start_page import CLUSTERS, RANKED_BY
from jbodlab.pages.values import Value
from tests.analytics.shared import NO_TIME

HEAD, *CASES = Path(__file__).with_name("report_lines.txt").read_text("utf-8").split("\n=== ")
LIKE: dict[str, dict[str, Value]] = {
    name: json.loads(row)
    for word, name, row in (f"{line}  ".split(" ", 2) for line in HEAD.splitlines())
    if word == "like"
}


@pytest.mark.parametrize("case", CASES, ids=[case.partition("\n")[0] for case in CASES])
def test_the_report_has_the_lines_of_its_case(case: str) -> None:
    words = [line.split(" ", 1) for line in case.strip().splitlines()[1:]]
    paths = dict(rest.split("=") for word, rest in words if word == "path")
    facts = {figure.name for figure in FACTS}
    answers = {}
    for figure in FIGURES:
        like = LIKE.get(figure.name, {})
        rows = [like | json.loads(rest) for word, rest in words if word == figure.name]
        values = tuple(tuple(row.get(one.name) for one in figure.columns) for row in rows)
        if figure.name in facts:
            values = ((0,) * len(figure.columns),)
        answers[figure.name] = Answer(figure=figure, rows=values, total=len(values))

    lines = text_of(Figures(span=NO_TIME, answers=answers, paths=paths)).splitlines()

    start = next(at for at, line in enumerate(lines) if line.startswith("Incidents"))
    stop = next(at for at, line in enumerate(lines) if line.startswith("Problems"))
    assert [line[13:] for line in lines[start:stop]] == [
        rest for word, rest in words if word == "|"
    ]


def test_the_start_page_names_figures_that_every_report_has() -> None:
    shown = {column.name for column in CLUSTERS} - {"cluster", "last_time"}

    assert shown | set(RANKED_BY) <= known_figures().keys()
