"""The report as JSON: every figure that the page and the text are made of, with its query.

::

    {"first": TIME, "last": TIME, "directory_paths": {ID: PATH},
     "figures": {NAME: {"title": ..., "rows": [{COLUMN: VALUE}], "all_rows": N, "query": SQL}}}

Times are ISO 8601 in UTC, days too, durations milliseconds, shares 0 to 1, ids and texts strings;
unknown values are null. A figure has at most as many rows as its query says; `all_rows` counts
those without that limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytics.page.figure import Answer
from analytics.page.report_figures import Figures
from jbodlab.pages.values import Unit, exact

if TYPE_CHECKING:
    from jbodlab.cli.results import Figure as PrintedFigure
    from jbodlab.cli.results import Report


def as_json(figures: Figures, page: str | None) -> Report:
    """Return the report of a cluster, as JSON has it."""
    return {
        "first": exact(figures.span.first_ms, Unit.TIME),
        "last": exact(figures.span.last_ms, Unit.TIME),
        "directory_paths": dict(figures.paths),
        "figures": {name: _answer(answer) for name, answer in figures.answers.items()},
        "page": page,
    }


def _answer(answer: Answer) -> PrintedFigure:
    figure = answer.figure
    rows = [
        {
            column.name: exact(value, column.unit) if column.unit is Unit.TIME else value
            for column, value in zip(figure.columns, row, strict=True)
        }
        for row in answer.rows
    ]
    return {"title": figure.title, "rows": rows, "all_rows": answer.total, "query": answer.query}
