"""The answers as text for a terminal; the lines are in `answers.txt`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.ask.as_of import LogMoment
from analytics.store.questions import Questions
from analytics.tables.table import Table
from jbodlab.vocabulary.ids import NO_LEADER

if TYPE_CHECKING:
    from jinja2 import Template

MAX_LINES = 100
"""Of each kind in the tables of a moment and in a difference; the tables have the rest."""


def text_of(kind: str, answer: Mapping[str, Any]) -> str:
    """Return the text of an answer."""
    text = str(getattr(_template().module, kind)(answer))
    return "\n".join(filter(None, text.split("\n")))


def as_of_text(tables: Mapping[Table, pa.Table], moment: LogMoment) -> str:
    """Return what the cluster was at a moment."""

    def first(rows: str, order: str) -> list[dict[str, Any]]:
        return questions.named_rows(f"SELECT * FROM {rows} ORDER BY {order} LIMIT {MAX_LINES}")

    with Questions({table.name: own for table, own in tables.items()}.__getitem__) as questions:
        (counts,) = questions.named_rows(
            f"""
            SELECT (SELECT count(*) FROM topics) AS topics, count(*) AS partitions,
              count(*) FILTER (WHERE leader = {NO_LEADER}) AS leaderless,
              count(*) FILTER (WHERE len(isr) < len(replicas)) AS under_replicated
            FROM partitions
            """
        )
        is_short = f"leader = {NO_LEADER} OR len(isr) < len(replicas)"
        found = {
            "moment": moment,
            "brokers": first("brokers", "broker"),
            "offline": first("log_dirs WHERE state = 'offline'", "broker, directory"),
            "short": first(f"partitions WHERE {is_short}", "topic, partition"),
            "features": first("features", "feature"),
        }
    return text_of("as_of", counts | found) + "\n"


def difference_text(diff: pa.Table, before: LogMoment, after: LogMoment) -> str:
    """Return what differs between two moments."""
    kinds = {}
    for kind in sorted(diff.column("kind").unique().to_pylist()):
        rows = diff.filter(pc.equal(diff.column("kind"), kind))
        kinds[kind] = (rows.slice(0, MAX_LINES).to_pylist(), len(rows) - MAX_LINES)
    return text_of("difference", {"before": before, "after": after, "kinds": kinds}) + "\n"


@cache
def _template() -> Template:
    from jinja2 import Environment

    environment = Environment(autoescape=False, trim_blocks=True, lstrip_blocks=True)
    environment.filters["clock"] = lambda time: (
        "unknown time" if time is None else time.replace("T", " ")
    )
    return environment.from_string(files(__package__).joinpath("answers.txt").read_text("utf-8"))
