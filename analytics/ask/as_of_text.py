"""The tables of a moment, and the difference of two, as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.ask.as_of import LogMoment
from analytics.store.questions import GivenTables, Questions
from analytics.tables.table import Table
from jbodlab.ids import NO_LEADER

Row = Mapping[str, Any]

MAX_LINES = 100
"""Of each kind; the tables have the rest."""


def as_of_text(tables: Mapping[Table, pa.Table], moment: LogMoment) -> str:
    """Return what the cluster was at a moment."""
    with Questions(GivenTables({table.name: rows for table, rows in tables.items()})) as questions:
        return _as_of_text(questions, moment)


_SHORT = f"leader = {NO_LEADER} OR len(isr) < len(replicas)"


def _as_of_text(questions: Questions, moment: LogMoment) -> str:
    ((topics,),) = questions.rows("SELECT count(*) FROM {topics}")
    ((partitions, leaderless, under_replicated),) = questions.rows(
        f"SELECT count(*), count(*) FILTER (WHERE leader = {NO_LEADER}), "
        "count(*) FILTER (WHERE len(isr) < len(replicas)) FROM {partitions}"
    )
    lines = [
        f"As of        {moment}",
        f"Topics       {topics} with {partitions} partitions; {leaderless} "
        f"without leader, {under_replicated} under-replicated",
    ]
    brokers = _first(questions, "{brokers}", "broker")
    lines += _section("Brokers", [_broker(row) for row in brokers])
    offline = _first(questions, "{log_dirs} WHERE state = 'offline'", "broker, directory")
    lines += _section(
        "Offline",
        [
            f"{row['directory']} of broker {row['broker']} since offset {row['valid_from_offset']}"
            for row in offline
        ],
    )
    short = _first(questions, f"{{partitions}} WHERE {_SHORT}", "topic, partition")
    lines += _section("Partitions", [_partition(row) for row in short])
    features = _first(questions, "{features}", "feature")
    lines += _section("Features", [f"{row['feature']} {row['level']}" for row in features])
    return "\n".join(lines) + "\n"


def difference_text(diff: pa.Table, before: LogMoment, after: LogMoment) -> str:
    """Return what differs between two moments.

    Args:
        diff: The rows, in the order of their table.
        before: The first moment.
        after: The second one.
    """
    lines = [f"From         {before}", f"To           {after}"]
    if not len(diff):
        return "\n".join([*lines, "Nothing differs."]) + "\n"
    for kind in sorted(diff.column("kind").unique().to_pylist()):
        rows = diff.filter(pc.equal(diff.column("kind"), kind))
        shown = rows.slice(0, MAX_LINES).to_pylist()
        lines += _section(kind.capitalize(), [_change(row) for row in shown])
        if len(rows) > MAX_LINES:
            lines.append(f"{'':<12} ... {len(rows) - MAX_LINES} more, in the table")
    return "\n".join(lines) + "\n"


def _first(questions: Questions, rows: str, order: str) -> list[dict[str, Any]]:
    return questions.named_rows(f"SELECT * FROM {rows} ORDER BY {order} LIMIT {MAX_LINES}")


def _section(title: str, texts: list[str]) -> list[str]:
    heads = [title] + [""] * len(texts)
    return [f"{head:<12} {text}" for head, text in zip(heads, texts or ["none"], strict=False)]


def _broker(row: Row) -> str:
    state = "in controlled shutdown" if row["in_controlled_shutdown"] else "active"
    state = "fenced" if row["fenced"] else state
    return f"{row['broker']} {state}, epoch {row['broker_epoch']}, {len(row['log_dirs'])} log dirs"


def _partition(row: Row) -> str:
    leader = "none" if row["leader"] == NO_LEADER else row["leader"]
    return (
        f"{row['topic']}-{row['partition']} leader {leader}, in sync {_list(row['isr'])} "
        f"of {_list(row['replicas'])}, since offset {row['valid_from_offset']}"
    )


def _change(row: Row) -> str:
    named = [row["topic"], row["partition"], row["broker"], row["directory"], row["name"]]
    subject = " ".join(str(part) for part in named if part is not None)
    if row["field"] == "exists":
        return f"{subject} {'came' if row['before'] is None else 'went'}"
    return f"{subject} {row['field']}: {_value(row['before'])} -> {_value(row['after'])}"


def _value(text: str | None) -> str:
    return "none" if text is None or text == "" else text


def _list(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "none"
