"""The tables of a moment, and the difference of two, as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.ask.as_of import LogMoment
from analytics.tables import catalog as t
from analytics.tables.table import Table
from jbodlab.ids import NO_LEADER

MAX_LINES = 100
"""Of each kind; the tables have the rest."""


def as_of_text(tables: Mapping[Table, DataFrame], moment: LogMoment) -> str:
    """Return what the cluster was at a moment."""
    partitions = tables[t.PARTITIONS].agg(
        F.count("*").alias("partitions"),
        F.count_if(F.col("leader") == NO_LEADER).alias("leaderless"),
        F.count_if(F.size("isr") < F.size("replicas")).alias("under_replicated"),
    )
    found = partitions.collect()[0]
    topics = tables[t.TOPICS].count()
    lines = [
        f"As of        {moment}",
        f"Topics       {topics} with {found['partitions']} partitions; {found['leaderless']} "
        f"without leader, {found['under_replicated']} under-replicated",
    ]
    lines += _section("Brokers", [_broker(row) for row in _first(tables[t.BROKERS], "broker")])
    offline = tables[t.LOG_DIRS].where(F.col("state") == "offline")
    lines += _section(
        "Offline",
        [
            f"{row['directory']} of broker {row['broker']} since offset {row['valid_from_offset']}"
            for row in _first(offline, "broker", "directory")
        ],
    )
    short = tables[t.PARTITIONS].where(
        (F.col("leader") == NO_LEADER) | (F.size("isr") < F.size("replicas"))
    )
    lines += _section(
        "Partitions", [_partition(row) for row in _first(short, "topic", "partition")]
    )
    features = _first(tables[t.FEATURES], "feature")
    lines += _section("Features", [f"{row['feature']} {row['level']}" for row in features])
    return "\n".join(lines) + "\n"


def difference_text(diff: DataFrame, before: LogMoment, after: LogMoment) -> str:
    """Return what differs between two moments."""
    lines = [f"From         {before}", f"To           {after}"]
    counts = {row["kind"]: row["count"] for row in diff.groupBy("kind").count().collect()}
    if not counts:
        return "\n".join([*lines, "Nothing differs."]) + "\n"
    order = ("topic", "partition", "broker", "directory", "name", "field")
    for kind in sorted(counts):
        rows = _first(diff.where(F.col("kind") == kind), *order)
        lines += _section(kind.capitalize(), [_change(row) for row in rows])
        if counts[kind] > MAX_LINES:
            lines.append(f"{'':<12} ... {counts[kind] - MAX_LINES} more, in the table")
    return "\n".join(lines) + "\n"


def _first(frame: DataFrame, *order: str) -> list[Row]:
    return frame.orderBy(*order).limit(MAX_LINES).collect()


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
