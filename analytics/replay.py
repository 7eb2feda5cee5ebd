"""From rows of the data source to state history, folded per key on the executors.

A topic's partitions depend on the topic's own records and theirs, a broker on its own, so records
are brought together by key, sorted by offset and folded with the merge functions of
`jbodlab.image`. A topic is cut into slots of partitions; its own records are handed to every slot.
Records that name a topic, or mean all topics (ClearElr, `min.insync.replicas`), are joined to topic
ids first. No-ops and whatever an aborted transaction held never get this far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from analytics.batch_walk import Problem
from analytics.broker_fold import BrokerFold
from analytics.decode import microseconds
from analytics.fold import Event, KeyFold, Row, Sync, fold
from analytics.layout import Layout
from analytics.source import ROWS_PER_BATCH
from analytics.tables import (
    BROKER,
    INT,
    INTS,
    LOG_DIRS,
    LONG,
    PARTITION,
    PROBLEMS,
    STRING,
    VALID_FROM,
    VALID_TO,
    struct,
)
from analytics.topic_fold import MIN_INSYNC_REPLICAS, TopicFold
from analytics.transactions import MARKERS, Dropped, Marker, dropped_stretches
from jbodlab.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.records.config_records import BROKER_RESOURCE, ConfigRecord
from jbodlab.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

TOPIC_TYPES = (TopicRecord.NAME, RemoveTopicRecord.NAME)
PARTITION_TYPES = (PartitionRecord.NAME, PartitionChangeRecord.NAME)
BROKER_TYPES = (
    RegisterBrokerRecord.NAME,
    BrokerRegistrationChangeRecord.NAME,
    FenceBrokerRecord.NAME,
    UnfenceBrokerRecord.NAME,
    UnregisterBrokerRecord.NAME,
)


FOLD_INPUT = (
    "key",
    "replay_offset",
    "snapshot",
    "offset",
    "time",
    "batch_base_offset",
    "batch_last_offset",
    "file",
    "type",
    "value",
)
assert Event._fields == FOLD_INPUT

_INTERNAL = StructType([StructField("batch_last_offset", LONG)])
_STATE = StructType([*struct((*VALID_FROM, *VALID_TO)), *_INTERNAL])
HISTORY = StructType(
    [
        StructField("kind", STRING),
        StructField(
            "partition", StructType([*struct(PARTITION), StructField("lost", INTS), *_STATE])
        ),
        StructField("broker", StructType([*struct(BROKER), *_STATE])),
        StructField("log_dir", StructType([*LOG_DIRS.schema, *_INTERNAL])),
        StructField(
            "topic",
            StructType([StructField("topic", STRING), StructField("topic_id", STRING), *_STATE]),
        ),
        StructField(
            "min_isr",
            StructType(
                [
                    StructField("topic_id", STRING),
                    StructField("min_insync_replicas", INT),
                    *_STATE,
                ]
            ),
        ),
        StructField("problem", PROBLEMS.schema),
    ]
)
"""One row of one kind; the columns of the other kinds are null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What is needed of a log before it is folded; its size does not grow with the log."""

    markers: tuple[Marker, ...]
    names_topics: bool
    """Whether records name topics, so that names have to be joined to ids."""


def overview(rows: DataFrame) -> Overview:
    """Look over the rows of the data source once."""
    marker = (~F.col("snapshot")) & F.col("type").isin(*MARKERS)
    found = rows.agg(
        F.collect_list(F.when(marker, F.struct("offset", "type", "file"))).alias("markers"),
        F.max(_names_topics()).alias("names_topics"),
    ).collect()[0]
    markers = sorted(Marker(row["offset"], row["type"], row["file"]) for row in found["markers"])
    return Overview(markers=tuple(markers), names_topics=bool(found["names_topics"]))


def history(
    rows: DataFrame, layout: Layout, seen: Overview, slots: int
) -> tuple[DataFrame, tuple[Problem, ...]]:
    """Fold the rows of the data source.

    Args:
        rows: They, cached by preference: they are gone through a few times.
        layout: Where a replay starts, and the snapshots that it meets.
        seen: What `overview` found in the rows.
        slots: Into how many parts a topic is cut.

    Returns:
        Rows of schema `HISTORY`, and transaction markers that are out of place.
    """
    dropped, problems = dropped_stretches(seen.markers, layout.end_offset)
    records = rows.where(F.col("problem").isNull() & ~F.col("control")).where(
        F.col("replay_offset") >= layout.replay_from
    )
    if dropped:
        records = _without(records, dropped)
    events = records.select(F.explode(_keys(slots)).alias("key"), *_event_columns())
    if seen.names_topics:
        events = events.unionByName(_events_by_name(records, slots))
    partitions = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 2)
    in_order = events.repartition(partitions, "key").sortWithinPartitions(
        "key", "replay_offset", F.col("snapshot").desc(), "offset"
    )
    return in_order.mapInArrow(_folder(_syncs(layout)), HISTORY), tuple(problems)


def of_kind(folded: DataFrame, kind: str) -> DataFrame:
    """Return the rows of one kind, with its columns."""
    return folded.where(F.col("kind") == kind).select(f"{kind}.*")


def load(spark: SparkSession, layout: Layout, split_bytes: int) -> DataFrame:
    """Return the rows of a metadata log directory."""
    return (
        spark.read.format("kraft-metadata")
        .option("splitBytes", split_bytes)
        .load(str(layout.directory))
    )


def make_fold(key: str) -> KeyFold:
    """Return the fold of a key: `b/<broker>` or `t/<topic id>/<slot>`."""
    family, name, *slot = key.split("/")
    return BrokerFold(int(name)) if family == "b" else TopicFold(name, int(slot[0]))


def _keys(slots: int) -> Column:
    """Return the keys that a record concerns; none for most types."""
    topic_id, partition = F.col("topic_id"), F.col("partition")
    no_keys = F.array().cast("array<string>")
    return (
        F.when(
            F.col("type").isin(*PARTITION_TYPES),
            F.array(F.concat_ws("/", F.lit("t"), topic_id, F.pmod(partition, F.lit(slots)))),
        )
        .when(F.col("type").isin(*TOPIC_TYPES), _slot_keys(slots))
        .when(
            F.col("type").isin(*BROKER_TYPES),
            F.array(F.concat_ws("/", F.lit("b"), F.col("broker"))),
        )
        .otherwise(no_keys)
    )


def _slot_keys(slots: int) -> Column:
    return F.array(
        *(F.concat_ws("/", F.lit("t"), F.col("topic_id"), F.lit(slot)) for slot in range(slots))
    )


def _event_columns() -> list[Column]:
    return [
        F.unix_micros("replay_time").alias(name) if name == "time" else F.col(name)
        for name in FOLD_INPUT
        if name != "key"
    ]


def _names_topics() -> Column:
    """Return whether a record means a topic by its name, or all of them."""
    payload = F.col("payload")
    is_min_isr = F.get_json_object(payload, "$.data.name") == MIN_INSYNC_REPLICAS
    is_cluster_default = (
        F.get_json_object(payload, "$.data.resourceType") == str(BROKER_RESOURCE)
    ) & (F.get_json_object(payload, "$.data.resourceName") == "")
    of_topics = F.col("topic").isNotNull() | is_cluster_default
    return (F.col("type") == ClearElrRecord.NAME) | (
        (F.col("type") == ConfigRecord.NAME) & is_min_isr & of_topics
    )


def _events_by_name(records: DataFrame, slots: int) -> DataFrame:
    named = records.where(_names_topics()).drop("topic_id")
    topics = (
        records.where(F.col("type") == TopicRecord.NAME)
        .groupBy(F.col("topic").alias("name"), "topic_id")
        .agg(F.min("replay_offset").alias("created"))
    )
    of_one = named.join(
        topics,
        (F.col("topic") == F.col("name")) & (F.col("replay_offset") >= F.col("created")),
    )
    # The cluster's default counts for topics that come later as well.
    of_all = named.where(F.coalesce("topic", F.lit("")) == "").crossJoin(topics)
    return of_one.unionByName(of_all).select(
        F.explode(_slot_keys(slots)).alias("key"), *_event_columns()
    )


def _without(records: DataFrame, dropped: Iterable[Dropped]) -> DataFrame:
    """Leave out the records of the log in some stretches."""
    stretches = F.broadcast(
        records.sparkSession.createDataFrame(list(dropped), "dropped_from long, dropped_to long")
    )
    inside = (
        ~F.col("snapshot")
        & (F.col("offset") >= F.col("dropped_from"))
        & (F.col("offset") < F.col("dropped_to"))
    )
    return records.join(stretches, inside, "left_anti")


def _syncs(layout: Layout) -> tuple[Sync, ...]:
    begins_later = layout.start_offset != 0
    return tuple(
        Sync(
            offset=snapshot.end_offset,
            time=microseconds(snapshot.timestamp_ms),
            file=snapshot.name,
            is_base=begins_later and snapshot.end_offset == layout.replay_from,
        )
        for snapshot in layout.snapshots
        if snapshot.end_offset in layout.sync_offsets
    )


def _folder(
    syncs: tuple[Sync, ...],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def fold_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(HISTORY, timezone="UTC")
        rows = fold(_events(batches), syncs, make_fold)
        while chunk := list(islice(rows, ROWS_PER_BATCH)):
            yield _batch(chunk, schema)

    return fold_batches


def _events(batches: Iterable[pa.RecordBatch]) -> Iterator[Event]:
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns)
        yield from map(Event._make, zip(*columns, strict=True))


def _batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)
