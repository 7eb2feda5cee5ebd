"""History of brokers, settings, features and controllers, from the rows of a scan.

These records are few, whatever partitions do, so that they are folded per key with the definitions
of `jbodlab.image`; see `fold.cluster_keys` for the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.fold.cluster_keys import (
    KINDS,
    TYPES,
    EpochPart,
    controller_epochs,
    make_small_fold,
)
from analytics.fold.key_history import Event, Row, Sync, fold
from analytics.fold.settings import KRAFT_VERSION, RESOURCE_TYPES
from analytics.tables import catalog as t
from analytics.tables.spark_schema import spark_schema
from jbodlab.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.records.control_records import KRaftVersionRecord, LeaderChangeMessage
from jbodlab.records.topic_records import RemoveTopicRecord, TopicRecord

HISTORY = pa.schema(
    [
        pa.field("kind", t.STRING),
        *(pa.field(kind, pa.struct(schema)) for kind, schema in KINDS.items()),
        pa.field("problem", pa.struct(t.PROBLEMS.schema)),
    ]
)
"""One row of one kind; the columns of the other kinds are null."""

FOLDS = 2
"""Tasks that fold; the records are few."""

ROWS_PER_BATCH = 8192


def cluster_history(rows: DataFrame, syncs: tuple[Sync, ...]) -> DataFrame:
    """Fold what is replayed of everything but topics and partitions.

    Args:
        rows: Rows of the data source's schema that are replayed, control records included.
        syncs: Snapshots that the replay meets.

    Returns:
        Rows of schema `HISTORY`; cache them if several tables come from them.
    """
    key = _key().alias("key")
    events = rows.where(F.col("type").isin(*TYPES)).select(key, *_event_columns())
    in_order = (
        events.unionByName(_ends_of_topics(rows))
        .where(F.col("key").isNotNull())
        .repartition(FOLDS, "key")
        .sortWithinPartitions("key", "replay_offset", F.col("snapshot").desc(), "offset")
    )
    return in_order.mapInArrow(_folder(syncs), spark_schema(HISTORY))


def counted(counts: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of the table of record counts: a few for each epoch.

    Args:
        counts: Columns of the table, several rows for one of it.
    """
    found = _record_counts(counts)
    times = {
        name: F.unix_micros(name).alias(name) for name in found.columns if name.endswith("time")
    }
    columns = [times.get(name, F.col(name)) for name in found.columns]
    return [row.asDict() for row in found.select(*columns).collect()]


def epoch_rows(counts: Iterable[Mapping[str, Any]], controllers: Mapping[int, int]) -> list[Row]:
    """Return the rows of the table of controller epochs; times are microseconds since 1970.

    Args:
        counts: Rows of the table of record counts.
        controllers: The controller of each epoch whose LeaderChange record is in the log.
    """
    parts = [
        EpochPart(row["epoch"], row["first_offset"], row["first_time"], row["records"])
        for row in counts
    ]
    return controller_epochs(parts, controllers)


def _record_counts(counts: DataFrame) -> DataFrame:
    return counts.groupBy("epoch", "type").agg(
        F.sum("records").alias("records"),
        F.min("first_offset").alias("first_offset"),
        F.min_by("first_time", "first_offset").alias("first_time"),
        F.max("last_offset").alias("last_offset"),
        F.max_by("last_time", "last_offset").alias("last_time"),
        F.min("earliest_time").alias("earliest_time"),
        F.max("latest_time").alias("latest_time"),
    )


def _key() -> Column:
    """Return the key of a record of one of `TYPES`."""
    kind = F.col("type")
    data = F.col("payload")
    code = F.get_json_object(data, "$.data.resourceType")
    names = F.create_map(
        *(F.lit(part) for number, name in RESOURCE_TYPES.items() for part in (str(number), name))
    )
    resource = F.get_json_object(data, "$.data.resourceName")
    return (
        F.when(
            kind == ConfigRecord.NAME,
            F.concat_ws("/", F.lit("c"), F.coalesce(names[code], code), resource),
        )
        .when(
            kind == FeatureLevelRecord.NAME,
            F.concat(F.lit("f/"), F.get_json_object(data, "$.data.name")),
        )
        .when(kind == KRaftVersionRecord.NAME, F.lit(f"f/{KRAFT_VERSION}"))
        .when(kind == LeaderChangeMessage.NAME, F.concat(F.lit("e/"), F.col("epoch")))
        .otherwise(F.concat(F.lit("b/"), F.col("broker")))
    )


def _event_columns() -> list[Column]:
    return [
        F.unix_micros("replay_time").alias(name) if name == "time" else F.col(name)
        for name in Event._fields
        if name != "key"
    ]


def _ends_of_topics(rows: DataFrame) -> DataFrame:
    """Return the ends of topics for which something was set, with the key of their settings."""
    is_topic_config = (F.col("type") == ConfigRecord.NAME) & F.col("topic").isNotNull()
    with_settings = rows.where(is_topic_config).select("topic").distinct()
    named = (
        rows.where(F.col("type") == TopicRecord.NAME)
        .select("topic", "topic_id")
        .distinct()
        .join(with_settings, "topic", "left_semi")
    )
    return (
        rows.where(F.col("type") == RemoveTopicRecord.NAME)
        .drop("topic")
        .join(named, "topic_id")
        .select(F.concat(F.lit("c/topic/"), F.col("topic")).alias("key"), *_event_columns())
    )


def _folder(
    syncs: tuple[Sync, ...],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def fold_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = fold(_events(batches), syncs, make_small_fold)
        while chunk := list(islice(rows, ROWS_PER_BATCH)):
            yield pa.RecordBatch.from_pylist(chunk, schema=HISTORY)

    return fold_batches


def _events(batches: Iterable[pa.RecordBatch]) -> Iterator[Event]:
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns)
        yield from map(Event._make, zip(*columns, strict=True))
