"""What the tables of history say of one moment, and how two moments differ.

A state holds at an offset if it began there or before and ended later: what the record at that
offset did is part of it. Nothing is replayed for that. A moment given as a time stands for the last
record written by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.ask.offline_log import clock, from_microseconds
from analytics.errors import ReplayInputError
from analytics.fold.min_insync import ASSUMED, MIN_INSYNC_REPLICAS, OF_CLUSTER, OF_TOPIC
from analytics.store.store import Store
from analytics.store.table_files import StoredTables
from analytics.tables import catalog as t
from analytics.tables.frames import conform
from analytics.tables.spark_schema import spark_type
from analytics.tables.table import CLUSTER, INT, STRING, Table, columns

Tables = Mapping[str, DataFrame]

AS_OF_TABLES: Mapping[Table, Table] = {
    t.BROKERS: t.BROKER_HISTORY,
    t.LOG_DIRS: t.LOG_DIRS,
    t.TOPICS: t.TOPIC_HISTORY,
    t.PARTITIONS: t.PARTITION_HISTORY,
    t.REPLICA_PLACEMENT: t.REPLICA_PLACEMENT,
    t.BROKER_SESSIONS: t.BROKER_SESSIONS,
    t.CONFIGS: t.CONFIGS,
    t.FEATURES: t.FEATURES,
}
"""Tables that can be given for a moment, and the histories that they come from."""

AS_OF = "as_of"
"""Folder in the output directory that tables of a moment are written to."""

DIFF = Table(
    name="diff",
    row="one fact that differs between two moments",
    columns=columns(
        ("kind", STRING, "topic, partition, broker, directory, config or feature"),
        ("topic", STRING, "name of the topic, if it is about one"),
        ("topic_id", STRING, "id of the topic, if it is about one"),
        ("partition", INT, "the partition, if it is about one"),
        ("broker", INT, "the broker, if it is about one"),
        ("directory", STRING, "the directory, if it is about one"),
        ("name", STRING, "name of the setting or feature, if it is about one"),
        ("field", STRING, "what differs"),
        ("before", STRING, "its value at the first moment; null = there was none"),
        ("after", STRING, "its value at the second moment; null = there was none"),
    ),
    order=("kind", "topic", "partition", "broker", "directory", "name", "field"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMoment:
    """A moment of the log: an offset, and the time of the record there."""

    offset: int
    time: datetime | None

    def __str__(self) -> str:
        return f"offset {self.offset} ({clock(self.time)})"


@dataclass(frozen=True, slots=True)
class _Compared:
    """What is compared: keys, and the fields that may differ."""

    keys: tuple[str, ...]
    fields: tuple[str, ...]


_COMPARED: Mapping[str, tuple[Table, _Compared]] = {
    "topic": (
        t.TOPICS,
        _Compared(("topic", "topic_id"), ("partitions", "min_insync_replicas")),
    ),
    "partition": (
        t.PARTITIONS,
        _Compared(
            ("topic", "topic_id", "partition"),
            (
                "leader",
                "replicas",
                "isr",
                "directories",
                "adding_replicas",
                "removing_replicas",
                "eligible_leader_replicas",
            ),
        ),
    ),
    "broker": (
        t.BROKERS,
        _Compared(
            ("broker",),
            ("broker_epoch", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs"),
        ),
    ),
    "directory": (t.LOG_DIRS, _Compared(("broker", "directory"), ("state",))),
    "config": (t.CONFIGS, _Compared(("resource_type", "resource_name", "name"), ("value",))),
    "feature": (t.FEATURES, _Compared(("feature",), ("level",))),
}


def cluster_to_ask(output_dir: str, wanted: str | None = None) -> str:
    """Return the cluster that a question is about.

    Args:
        output_dir: Where a replay wrote its tables.
        wanted: Its label; may be left out where there is one only.

    Raises:
        ReplayInputError: there are no tables, none of that cluster, or those of several.
    """
    names = Store(f"{output_dir}/{t.LOGS.name}").names()
    begin = f"{CLUSTER}="
    found = [name.removeprefix(begin) for name in names if name.startswith(begin)]
    if not found:
        raise ReplayInputError(f"{output_dir} holds no tables: {t.LOGS.name} is missing")
    if wanted is None and len(found) > 1:
        some = ", ".join(found[:3])
        raise ReplayInputError(
            f"{output_dir} holds {len(found)} clusters ({some}, ...): say --cluster NAME"
        )
    if wanted is not None and wanted not in found:
        raise ReplayInputError(f"{output_dir} holds no cluster {wanted}")
    return wanted or found[0]


def read_tables(spark: SparkSession, output_dir: str, cluster: str) -> Tables:
    """Return the tables that a replay has written of a cluster.

    Raises:
        ReplayInputError: one is missing.
    """
    store = Store(output_dir)
    for table in t.TABLES:
        if not store.is_folder(table.folder(cluster)):
            raise ReplayInputError(f"{output_dir} holds no tables: {table.name} is missing")
    return StoredTables(spark, t.TABLES, lambda table: store.uri(table.folder(cluster)))


def resolve(tables: Tables, moment: int | datetime) -> LogMoment:
    """Return the moment of the log that is meant.

    Args:
        tables: The tables by name.
        moment: An offset, or a time.

    Raises:
        ReplayInputError: it lies before what the log tells, or behind its end.
    """
    (log,) = (
        tables[t.LOGS.name]
        .select("replay_from", "end_offset", F.unix_micros("replay_from_time").alias("from_us"))
        .collect()
    )
    first, end = log["replay_from"], log["end_offset"] - 1
    # What a snapshot holds is the state before the first record that follows it.
    low = first - 1 if first else 0
    if isinstance(moment, int) and not low <= moment <= end:
        raise ReplayInputError(f"offset {moment} is outside of the log, {low} to {end}")
    records = tables[t.RECORDS.name].where(F.col("offset") >= first)
    wanted = (
        records.where(F.col("offset") <= moment)
        if isinstance(moment, int)
        else records.where(F.col("timestamp") <= F.lit(moment))
    )
    last = wanted.agg(
        F.max("offset").alias("offset"),
        F.max_by(F.unix_micros("timestamp"), "offset").alias("time"),
    ).collect()[0]
    if last["offset"] is None:
        base = None if log["from_us"] is None else from_microseconds(log["from_us"])
        if not isinstance(moment, int) and (base is None or moment < base):
            span = f"{clock(base or _begin(tables))} on"
            raise ReplayInputError(f"time {clock(moment)} is outside of the log, {span}")
        return LogMoment(offset=low, time=base)
    time = None if last["time"] is None else from_microseconds(last["time"])
    return LogMoment(offset=last["offset"], time=time)


def _begin(tables: Tables) -> datetime | None:
    """Return the time of the first record."""
    first = F.min(F.unix_micros("earliest_time")).alias("time")
    (row,) = tables[t.RECORD_COUNTS.name].agg(first).collect()
    return None if row["time"] is None else from_microseconds(row["time"])


def as_of(tables: Tables, moment: LogMoment) -> dict[Table, DataFrame]:
    """Return the tables as they were; what ended later still holds in them."""
    held = {
        table: tables[history.name].where(_holds(moment.offset))
        for table, history in AS_OF_TABLES.items()
    }
    assumed = tables[t.LOGS.name].select(F.col("min_insync_replicas").alias("assumed_number"))
    held[t.TOPICS] = _topics(held, assumed)
    nothing_ended = {"valid_to_offset": F.lit(None), "valid_to_time": F.lit(None)}
    nothing_ended |= {"ended_by": F.lit(None), "duration_ms": F.lit(None)}
    return {
        table: conform(
            frame.withColumns(
                {name: null for name, null in nothing_ended.items() if name in frame.columns}
            ),
            table,
        )
        for table, frame in held.items()
    }


def difference(before: Mapping[Table, DataFrame], after: Mapping[Table, DataFrame]) -> DataFrame:
    """Return what differs between the tables of two moments, of schema `DIFF`."""
    found: DataFrame | None = None
    for kind, (table, compared) in _COMPARED.items():
        part = _differing(kind, before[table], after[table], compared)
        found = part if found is None else found.unionByName(part)
    assert found is not None
    return conform(found, DIFF)


def _holds(offset: int) -> Column:
    ended = F.coalesce("valid_to_offset", F.lit(2**63 - 1))
    held = (F.col("valid_from_offset") <= offset) & (ended > offset)
    # A snapshot's states stand at its end, and hold before the record there.
    of_base = (F.col("record_type") == t.SNAPSHOT_TYPE) & (F.col("valid_from_offset") == offset + 1)
    return held | of_base


def _topics(held: Mapping[Table, DataFrame], assumed: DataFrame) -> DataFrame:
    """Return topics with the counts of their partitions, and what is set for them."""
    counts = (
        held[t.PARTITIONS]
        .groupBy("topic_id")
        .agg(
            F.count("*").cast("int").alias("partitions"),
            F.max(F.when(F.col("partition") == 0, F.size("replicas"))).alias("replication_factor"),
        )
    )
    is_min_isr = F.col("name") == MIN_INSYNC_REPLICAS
    number = F.when(F.trim("value").rlike("^[0-9]+$"), F.trim("value").cast("int"))
    settings = (
        held[t.CONFIGS]
        .where(is_min_isr)
        .select("resource_type", "resource_name", number.alias("number"))
    )
    own = settings.where(F.col("resource_type") == "topic").select(
        F.col("resource_name").alias("topic"), F.col("number").alias("own_number")
    )
    default = settings.where(
        (F.col("resource_type") == "broker") & (F.col("resource_name") == "")
    ).agg(F.max("number").alias("default_number"))
    return (
        held[t.TOPICS]
        .join(counts, "topic_id", "left")
        .join(own, "topic", "left")
        .crossJoin(F.broadcast(default))
        .withColumn("partitions", F.coalesce("partitions", F.lit(0)))
        .crossJoin(F.broadcast(assumed))
        .withColumn(
            "min_insync_replicas", F.coalesce("own_number", "default_number", "assumed_number")
        )
        .withColumn(
            "min_insync_replicas_from",
            F.when(F.col("own_number").isNotNull(), OF_TOPIC)
            .when(F.col("default_number").isNotNull(), OF_CLUSTER)
            .otherwise(ASSUMED),
        )
    )


def _differing(kind: str, before: DataFrame, after: DataFrame, compared: _Compared) -> DataFrame:
    keys = list(compared.keys)
    old = _texts(before, compared).withColumnRenamed("values", "old")
    new = _texts(after, compared).withColumnRenamed("values", "new")
    fields = ("exists", *compared.fields)
    pairs = F.array(
        *(
            F.struct(
                F.lit(field).alias("field"),
                F.col(f"old.{field}").alias("before"),
                F.col(f"new.{field}").alias("after"),
            )
            for field in fields
        )
    )
    is_new, is_gone = F.col("old").isNull(), F.col("new").isNull()
    other = F.filter(pairs, lambda pair: ~pair["before"].eqNullSafe(pair["after"]))
    # Of what came or went, that it did says enough.
    shown = F.when(is_new | is_gone, F.slice(pairs, 1, 1)).otherwise(other)
    rows = old.join(new, keys, "full").select(*keys, F.explode(shown).alias("pair"))
    named = {
        "name": F.col("feature")
        if "feature" in keys
        else F.concat_ws("/", "resource_type", "resource_name", "name")
        if "resource_type" in keys
        else F.lit(None)
    }
    places: dict[str, Column] = {
        column.name: (F.col(column.name) if column.name in keys else F.lit(None)).cast(
            spark_type(column.type)
        )
        for column in DIFF.columns
        if column.name in ("topic", "topic_id", "partition", "broker", "directory")
    }
    return rows.select(
        F.lit(kind).alias("kind"),
        *(column.alias(name) for name, column in places.items()),
        named["name"].cast("string").alias("name"),
        F.col("pair.field").alias("field"),
        F.col("pair.before").alias("before"),
        F.col("pair.after").alias("after"),
    )


def _texts(frame: DataFrame, compared: _Compared) -> DataFrame:
    """Return the keys, and the fields as texts in a struct."""
    kinds = {field.name: field.dataType for field in frame.schema}
    values = [F.lit("yes").alias("exists")]
    for name in compared.fields:
        is_list = kinds[name].typeName() == "array"
        text = F.concat_ws(",", F.col(name).cast("array<string>")) if is_list else F.col(name)
        values.append(F.when(F.col(name).isNotNull(), text.cast("string")).alias(name))
    return frame.select(*compared.keys, F.struct(*values).alias("values"))
