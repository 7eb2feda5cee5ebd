"""The report as text for a terminal: the figures of `page.report_figures`, a line each.

The page shows the same figures, so that a number is defined once, as a query on the tables. The
lines are in `report.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from analytics.page.figure import Answer
from analytics.page.report_figures import Figures
from jbodlab.pages.values import Unit, Value, readable, with_path
from jbodlab.vocabulary.durations import duration_text

if TYPE_CHECKING:
    from jinja2 import Template

MAX_LINES = 20
"""Lines of a section; the tables have the rest."""
TOP_LINES = 5
"""Lines of a section that begins with the worst."""

Row = dict[str, object]

_TITLE_CHARS = 12
# Without a title the lines belong to the section above.
_SECTIONS = (
    ("Log", "log", "log", MAX_LINES),
    ("", "log", "period", MAX_LINES),
    ("Incidents", "incidents", "incident", MAX_LINES),
    ("Outages", "outages_by_cause", "outage", MAX_LINES),
    ("Broker logs", "broker_logs", "broker_logs", MAX_LINES),
    ("Risk", "risk_now", "risk", MAX_LINES),
    ("", "what_if_directory", "what_if", TOP_LINES),
    ("", "what_if_broker", "what_if", TOP_LINES),
    ("Topics", "topics_now", "topics", MAX_LINES),
    ("Assumed", "assumptions", "assumption", MAX_LINES),
    ("Brokers", "brokers_now", "broker", MAX_LINES),
    ("Leaders", "leadership_causes", "leadership", MAX_LINES),
    ("Churn", "churning_partitions", "churn", TOP_LINES),
    ("ISR", "flapping_replicas", "flaps", TOP_LINES),
    ("Load", "broker_skew", "skew", TOP_LINES),
    ("", "directory_skew", "skew", TOP_LINES),
    ("Moves", "moves_by_outcome", "moves", MAX_LINES),
    ("Slowest", "slowest_moves_reassignment", "move", TOP_LINES),
    ("Assignments", "assignment_lag", "lag", TOP_LINES),
    ("Availability", "availability", "availability", MAX_LINES),
    ("", "topic_availability", "topic_availability", TOP_LINES),
    ("Recovery", "recovery", "recovery", MAX_LINES),
    ("Problems", "problem_kinds", "problem", MAX_LINES),
    ("Unknown", "unknown_records", "unknown", MAX_LINES),
)
_ALWAYS = {"Incidents", "Problems"}
"""Sections that say so where there are none."""
_COUNTED_BY = {
    "risk_now": ("topics_now", "partitions"),
    "topics_now": ("topics_now", "partitions"),
    "availability": ("availability", "topics_ever"),
}
"""Figures of one row, and what they are about; without any they say nothing."""


def text_of(figures: Figures) -> str:
    """Return the text of figures; those of the page have all that it needs."""
    answers = figures.answers
    lines: list[str] = []
    for title, name, line, most in _SECTIONS:
        counts, column = _COUNTED_BY.get(name, ("", ""))
        if counts and not answers[counts].values(column)[0]:
            continue
        rows = _rows(answers[name], figures.paths)[:most]
        if name == "incidents":
            rows = _with_courses(rows, answers)
        texts = [text for row in rows if (text := _line(line, row))]
        if answers[name].total > most:
            texts.append(f"... and {answers[name].total - most} more, in the tables")
        lines += _titled(title, texts or ["none"] * (title in _ALWAYS))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def ranking_text(clusters: Mapping[str, Mapping[str, Value]]) -> str:
    """Return a line for each cluster, with its named figures; given the worst first."""
    texts = [f"{name}: {_line('cluster', facts)}" for name, facts in clusters.items()]
    if len(texts) > MAX_LINES:
        texts[MAX_LINES:] = [f"... and {len(texts) - MAX_LINES} more, on the start page"]
    return "\n".join(_titled("Clusters", texts)) + "\n"


def _with_courses(incidents: Sequence[Row], answers: Mapping[str, Answer]) -> list[Row]:
    """Return incidents with the course of each failure.

    Both figures begin with the open ones, then the latest: each incident here has its course.
    """
    courses: dict[tuple[object, ...], Row] = {
        (what, row["broker"], row.get("directory"), row["detected_offset"]): row
        for what in ("directory", "broker")
        for row in _rows(answers[f"{what}_failures"], {})
    }
    keys = [
        (row["what"], row["node"], row["directory_id"], row["from_offset"]) for row in incidents
    ]
    return [{**row, "course": courses.get(key)} for row, key in zip(incidents, keys, strict=True)]


def _rows(answer: Answer, paths: Mapping[str, str]) -> list[Row]:
    columns = answer.figure.columns
    found = []
    for values in answer.rows:
        row: Row = {
            column.name: with_path(value, column.unit, paths)
            for column, value in zip(columns, values, strict=True)
        }
        if "directory" in row:
            at = [column.name for column in columns].index("directory")
            row["directory_id"] = values[at]
        found.append(row)
    return found


def _titled(title: str, texts: Sequence[str]) -> list[str]:
    heads = [title, *[""] * (len(texts) - 1)]
    return [f"{head:<{_TITLE_CHARS}} {text}" for head, text in zip(heads, texts, strict=False)]


def _line(name: str, row: Mapping[str, object]) -> str:
    return str(getattr(_template().module, name)(row))


@cache
def _template() -> Template:
    from jinja2 import Environment

    environment = Environment(autoescape=False, trim_blocks=True)
    environment.filters.update(
        deviation=lambda share: "" if share is None else f" ({100 * share:+.1f}% from the mean)",
        many=lambda number, noun: f"{number} {noun}" + ("" if number == 1 else "s"),
        ms=lambda ms: "unknown" if ms is None else duration_text(ms / 1000),
        or_none=lambda value: "none" if value is None else value,
        percent=lambda share: "unknown" if share is None else f"{100 * share:.4f}%",
        time=lambda time: "unknown" if time is None else readable(time, Unit.TIME),
    )
    return environment.from_string(files(__package__).joinpath("report.txt").read_text("utf-8"))
