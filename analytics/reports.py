"""Short answers from the tables: DataFrames of tables in, a DataFrame out; and their text.

Each function reads tables as they are documented in `analytics.tables`, nothing else, so that it
answers the same from tables that were written long ago.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from jbodlab.ids import NO_LEADER
from jbodlab.records.config_records import NoOpRecord

MAX_LINES = 20
"""Of each section of the text; the tables have the rest."""

Tables = Mapping[str, DataFrame]


def log_summary(tables: Tables) -> DataFrame:
    """Return one row: how much the log holds, and from when to when."""
    return tables["records"].agg(
        F.count("*").alias("records"),
        F.count_if(F.col("type") == NoOpRecord.NAME).alias("no_ops"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.min("timestamp").alias("first_time"),
        F.max("timestamp").alias("last_time"),
        F.count_distinct("epoch").alias("epochs"),
    )


def problem_summary(tables: Tables) -> DataFrame:
    """Return the number of problems of each kind, and one of them."""
    return (
        tables["problems"]
        .groupBy("kind")
        .agg(F.count("*").alias("problems"), F.first("message").alias("message"))
        .orderBy("kind")
    )


def cluster_summary(tables: Tables) -> DataFrame:
    """Return one row per registered broker: its state, its directories, its replicas."""
    log_dirs = (
        tables["log_dirs"]
        .where(F.col("valid_to_offset").isNull())
        .groupBy("broker")
        .agg(
            F.count_if(F.col("state") == "online").alias("online"),
            F.count_if(F.col("state") == "offline").alias("offline"),
        )
    )
    replicas = (
        tables["partitions"]
        .select("leader", F.explode("replicas").alias("broker"))
        .groupBy("broker")
        .agg(
            F.count("*").alias("replicas"),
            F.count_if(F.col("leader") == F.col("broker")).alias("leaders"),
        )
    )
    return (
        tables["brokers"]
        .join(log_dirs, "broker", "left")
        .join(replicas, "broker", "left")
        .select(
            "broker",
            "broker_epoch",
            F.when(F.col("in_controlled_shutdown"), "in controlled shutdown")
            .when(F.col("fenced"), "fenced")
            .otherwise("active")
            .alias("state"),
            *(
                F.coalesce(name, F.lit(0)).alias(name)
                for name in ("online", "offline", "replicas", "leaders")
            ),
        )
        .orderBy("broker")
    )


def topic_summary(tables: Tables) -> DataFrame:
    """Return one row: topics, partitions, and how many of them are short of something now."""
    return tables["partitions"].agg(
        F.count_distinct("topic_id").alias("topics"),
        F.count("*").alias("partitions"),
        F.count_if(F.col("leader") == NO_LEADER).alias("leaderless"),
        F.count_if(F.size("isr") < F.size("replicas")).alias("under_replicated"),
    )


def directory_failures(tables: Tables) -> DataFrame:
    """Return one row per directory that went offline: what it held and what became of that.

    `replicas` and `leaders` are those in the directory just before; `new_leaders` of the latter
    got another broker as leader, the last one `last_new_leader_ms` after the failure.
    """
    failures = (
        tables["log_dirs"]
        .where(F.col("state") == "offline")
        .select(
            F.col("broker").alias("failed_broker"),
            "directory",
            F.col("valid_from_offset").alias("failed_offset"),
            F.col("valid_from_time").alias("failed_time"),
            F.col("batch_base_offset").alias("failed_batch"),
            F.col("valid_to_time").alias("online_again"),
        )
    )
    history = tables["partition_history"].select(
        "topic_id",
        "partition",
        "leader",
        "directories",
        "valid_from_offset",
        "valid_from_time",
        F.coalesce("valid_to_offset", F.lit(2**63 - 1)).alias("valid_to_offset"),
    )
    touched = failures.join(
        history,
        F.array_contains("directories", F.col("directory"))
        & (F.col("valid_from_offset") < F.col("failed_batch"))
        & (F.col("valid_to_offset") >= F.col("failed_batch")),
        "left",
    ).select(
        *failures.columns,
        "topic_id",
        "partition",
        (F.col("leader") == F.col("failed_broker")).alias("led"),
    )
    later = history.select(
        F.col("topic_id").alias("later_topic_id"),
        F.col("partition").alias("later_partition"),
        F.col("leader").alias("later_leader"),
        F.col("valid_from_offset").alias("later_offset"),
        F.col("valid_from_time").alias("later_time"),
    ).where(F.col("later_leader") != NO_LEADER)
    per_partition = (
        touched.join(
            later,
            F.col("led")
            & (F.col("topic_id") == F.col("later_topic_id"))
            & (F.col("partition") == F.col("later_partition"))
            & (F.col("later_offset") >= F.col("failed_batch"))
            & (F.col("later_leader") != F.col("failed_broker")),
            "left",
        )
        .groupBy(*failures.columns, "topic_id", "partition", "led")
        .agg(F.min("later_time").alias("new_leader_time"))
    )
    delay = F.unix_millis("new_leader_time") - F.unix_millis("failed_time")
    return (
        per_partition.groupBy(*failures.columns)
        .agg(
            F.count("partition").alias("replicas"),
            F.count_if("led").alias("leaders"),
            F.count("new_leader_time").alias("new_leaders"),
            F.max(delay).alias("last_new_leader_ms"),
        )
        .orderBy("failed_offset", "directory")
    )


def outage_summary(tables: Tables) -> DataFrame:
    """Return one row per kind and cause: how many, how long, how many are still open."""
    return (
        tables["outages"]
        .groupBy("kind", "cause", "broker", "directory")
        .agg(
            F.count("*").alias("outages"),
            F.count_distinct("topic_id", "partition").alias("partitions"),
            F.count_if(F.col("to_offset").isNull()).alias("open"),
            F.max("duration_ms").alias("longest_ms"),
            F.min("from_time").alias("first_time"),
        )
        .orderBy("first_time", "kind", "cause", "broker")
    )


def report_text(tables: Tables) -> str:
    """Return the report: every summary, as text for a terminal."""
    sections: Sequence[tuple[Callable[[Tables], DataFrame], Callable[[list[Row]], list[str]]]] = (
        (log_summary, _log_lines),
        (topic_summary, _topic_lines),
        (cluster_summary, _broker_lines),
        (directory_failures, _directory_lines),
        (outage_summary, _outage_lines),
        (problem_summary, _problem_lines),
    )
    with ThreadPoolExecutor(len(sections)) as pool:
        jobs = [pool.submit(_answer, query, tables) for query, _ in sections]
        found = [job.result() for job in jobs]
    lines = [
        line for (_, render), rows in zip(sections, found, strict=True) for line in render(rows)
    ]
    return "\n".join(lines) + "\n"


def _answer(query: Callable[[Tables], DataFrame], tables: Tables) -> list[Row]:
    # One row more than is shown tells whether there are more; a report of a big log stays short.
    return query(tables).limit(MAX_LINES + 1).collect()


def _log_lines(rows: list[Row]) -> list[str]:
    row = rows[0]
    if row["records"] == 0:
        return ["Log          no records"]
    return [
        f"Log          {row['records']} records, offsets {row['first_offset']} to "
        f"{row['last_offset']}, {row['no_ops']} no-ops, {_count(row['epochs'], 'epoch')}",
        f"             {_time(row['first_time'])} to {_time(row['last_time'])} UTC",
    ]


def _topic_lines(rows: list[Row]) -> list[str]:
    row = rows[0]
    return [
        f"Topics       {row['topics']} with {_count(row['partitions'], 'partition')}; now "
        f"{row['leaderless']} without leader, {row['under_replicated']} under-replicated"
    ]


def _broker_lines(rows: list[Row]) -> list[str]:
    texts = [
        f"{row['broker']} {row['state']}, log directories {row['online']} online "
        f"{row['offline']} offline, {_count(row['replicas'], 'replica')}, "
        f"{_count(row['leaders'], 'leader')}, epoch {row['broker_epoch']}"
        for row in rows
    ]
    return _section("Brokers", texts, "none registered")


def _directory_lines(rows: list[Row]) -> list[str]:
    texts = []
    for row in rows:
        back = row["online_again"]
        until = f"until {_time(back)}" if back else "and still is"
        leaders = f"{_count(row['leaders'], 'leader')}"
        if row["leaders"]:
            leaders += f" ({row['new_leaders']} moved"
            if row["last_new_leader_ms"] is not None:
                leaders += f", the last after {row['last_new_leader_ms']} ms"
            leaders += ")"
        texts.append(
            f"{_time(row['failed_time'])} broker {row['failed_broker']} {row['directory']} went "
            f"offline {until}: {_count(row['replicas'], 'replica')}, {leaders}"
        )
    return _section("Directories", texts, "none went offline")


def _outage_lines(rows: list[Row]) -> list[str]:
    texts = []
    for row in rows:
        place = "" if row["broker"] is None else f" on broker {row['broker']}"
        if row["directory"] is not None:
            place += f" {row['directory']}"
        longest = "" if row["longest_ms"] is None else f", longest {row['longest_ms']} ms"
        still = f", {row['open']} still open" if row["open"] else ""
        texts.append(
            f"{_time(row['first_time'])} {row['kind']} by {row['cause']}{place}: "
            f"{_count(row['partitions'], 'partition')}, {_count(row['outages'], 'outage')}"
            f"{longest}{still}"
        )
    return _section("Outages", texts, "none")


def _problem_lines(rows: list[Row]) -> list[str]:
    texts = [f"{row['problems']} {row['kind']}: {row['message']}" for row in rows]
    return _section("Problems", texts, "none")


def _section(title: str, texts: list[str], empty: str) -> list[str]:
    shown = texts[:MAX_LINES] or [empty]
    if len(texts) > MAX_LINES:
        shown.append("... and more, in the tables")
    heads = [title] + [""] * (len(shown) - 1)
    return [f"{head:<12} {text}" for head, text in zip(heads, shown, strict=True)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _time(moment: datetime | None) -> str:
    return "unknown" if moment is None else moment.isoformat(" ", "milliseconds")
