"""From the rows that a log decodes to, to what the cluster was at each moment.

The records of a log are read once (`job.scan_stage`). What they say of partitions stays packed and
goes to the bucket of the partition; everything else is few rows: records about brokers are folded
per broker, those about topics go to the buckets that have partitions of the topic. Records that
name a topic (ClearElr, `min.insync.replicas`) are joined to its ids first, those that mean all
topics go to every bucket. No-ops and whatever an aborted transaction held never get this far.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.bytes.batch_walk import Problem
from analytics.bytes.layout import Layout
from analytics.decode.plain_rows import microseconds
from analytics.fold.broker_facts import BrokerState
from analytics.fold.key_history import Sync
from analytics.fold.min_insync import MIN_INSYNC_REPLICAS
from analytics.fold.transactions import MARKERS, Dropped, Marker, dropped_stretches
from analytics.job.fold_stage import EVENT, INPUT
from analytics.tables.spark_schema import spark_type
from jbodlab import kafka_uuid
from jbodlab.records.config_records import BROKER_RESOURCE, ConfigRecord
from jbodlab.records.topic_records import ClearElrRecord, RemoveTopicRecord, TopicRecord

TOPIC_TYPES = (TopicRecord.NAME, RemoveTopicRecord.NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What is needed of a log before it is followed; it grows with the cluster, not with the log.

    Attributes:
        dropped: Offsets without effect.
        problems: Transaction markers that are out of place.
        wide: Topics that lie in several buckets: id as text, and the number of their slots.
        names_topics: Whether records name topics.
    """

    dropped: tuple[Dropped, ...]
    problems: tuple[Problem, ...]
    wide: tuple[tuple[str, int], ...]
    names_topics: bool


def overview(scanned: DataFrame, layout: Layout) -> Overview:
    """Look over the few rows of a scan."""
    row = F.col("row")
    of_log = (F.col("kind") == "row") & ~row["snapshot"] & row["problem"].isNull()
    found = scanned.agg(
        F.collect_list(
            F.when(
                of_log & row["type"].isin(*MARKERS), F.struct("row.offset", "row.type", "row.file")
            )
        ).alias("markers"),
        F.collect_list("wide").alias("wide"),
        F.max(_names_a_topic(row) & (F.col("kind") == "row")).alias("names_topics"),
    ).collect()[0]
    markers = sorted(Marker(one["offset"], one["type"], one["file"]) for one in found["markers"])
    dropped, problems = dropped_stretches(markers, layout.end_offset)
    wide: dict[str, int] = {}
    for one in found["wide"]:
        topic_id = kafka_uuid.to_text(UUID(bytes=bytes(one["topic_id"])))
        wide[topic_id] = max(one["slots"], wide.get(topic_id, 0))
    return Overview(
        dropped=tuple(dropped),
        problems=tuple(problems),
        wide=tuple(wide.items()),
        names_topics=bool(found["names_topics"]),
    )


def effective_rows(scanned: DataFrame, layout: Layout, dropped: Iterable[Dropped]) -> DataFrame:
    """Return the rows that are replayed, of the data source's schema; control records too."""
    rows = (
        scanned.where(F.col("kind") == "row")
        .select("row.*", "home")
        .where(F.col("problem").isNull() & (F.col("replay_offset") >= layout.replay_from))
    )
    for start, end in dropped:
        rows = rows.where(
            F.col("snapshot")
            | F.col("control")
            | (F.col("offset") < start)
            | (F.col("offset") >= end)
        )
    return rows


def history_input(
    scanned: DataFrame, rows: DataFrame, seen: Overview, buckets: int, layout: Layout
) -> DataFrame:
    """Return what the buckets get, of schema `INPUT`.

    Args:
        scanned: Rows of the scan.
        rows: Those of them that are replayed.
        seen: What `overview` found.
        buckets: How many there are.
        layout: Where the replay starts.
    """
    blocks = scanned.where(F.col("kind") == "block").where(
        F.coalesce("snapshot_end", F.lit(2**62)) >= layout.replay_from
    )
    parts = [
        blocks.select(
            "bucket",
            "first",
            "last",
            "snapshot_end",
            "file_name",
            "blob",
            F.lit(None).cast("string").alias("topic_id"),
            F.lit(None).cast("boolean").alias("is_first"),
            F.lit(None).cast(spark_type(pa.struct(EVENT))).alias("event"),
        ),
        _of_topics(rows.where(F.col("type").isin(*TOPIC_TYPES)), seen, buckets),
        _of_all(rows, buckets),
        _every_bucket(rows.sparkSession, buckets),
    ]
    if seen.names_topics:
        parts.append(_of_topics(_by_name(rows), seen, buckets))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole.select(*INPUT.names)


def sync_points(layout: Layout) -> tuple[Sync, ...]:
    """Return the snapshots that the replay meets."""
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


def states_of_cluster(folded: DataFrame) -> tuple[tuple[BrokerState, ...], dict[int, int]]:
    """Return what brokers were, and the controller of each epoch, from their folded history.

    Its size grows with restarts, failures and elections, not with what happens to partitions.
    """
    kinds = ("broker", "controller_epoch")
    columns = (
        "broker.broker",
        "broker.valid_from_offset",
        "broker.valid_to_offset",
        F.unix_micros("broker.valid_from_time").alias("from_us"),
        F.unix_micros("broker.valid_to_time").alias("to_us"),
        "broker.fenced",
        "broker.in_controlled_shutdown",
        "broker.log_dirs",
        "controller_epoch.epoch",
        "controller_epoch.controller",
    )
    rows = folded.where(F.col("kind").isin(*kinds)).select("kind", *columns).collect()
    controllers = {row["epoch"]: row["controller"] for row in rows if row["kind"] == kinds[1]}
    brokers = tuple(
        BrokerState(
            broker=row["broker"],
            from_offset=row["valid_from_offset"],
            to_offset=row["valid_to_offset"],
            fenced=row["fenced"],
            in_controlled_shutdown=row["in_controlled_shutdown"],
            directories=frozenset(kafka_uuid.parse(text).bytes for text in row["log_dirs"]),
            from_time=row["from_us"],
            to_time=row["to_us"],
        )
        for row in rows
        if row["kind"] == kinds[0]
    )
    return brokers, controllers


def _names_a_topic(row: Column) -> Column:
    """Return whether a record means a topic by its name."""
    return row["topic"].isNotNull() & (
        ((row["type"] == ClearElrRecord.NAME) & (row["topic"] != ""))
        | ((row["type"] == ConfigRecord.NAME) & _is_min_isr(row["payload"]))
    )


def _is_min_isr(payload: Column) -> Column:
    return F.get_json_object(payload, "$.data.name") == MIN_INSYNC_REPLICAS


def _of_topics(rows: DataFrame, seen: Overview, buckets: int) -> DataFrame:
    """Return events of single topics, for every bucket that has partitions of the topic."""
    slots = F.lit(1)
    if seen.wide:
        wide = F.broadcast(
            rows.sparkSession.createDataFrame(list(seen.wide), "topic_id string, slots int")
        )
        rows = rows.join(wide, "topic_id", "left")
        slots = F.least(F.coalesce("slots", F.lit(1)), F.lit(buckets))
    events = rows.select("*", F.explode(F.sequence(F.lit(0), slots - 1)).alias("slot"))
    bucket = F.pmod(F.col("home") + F.col("slot"), F.lit(buckets)).cast("int")
    return _input(events, bucket, F.col("topic_id"), F.col("slot") == 0)


def _of_all(rows: DataFrame, buckets: int) -> DataFrame:
    """Return events that mean all topics, for every bucket."""
    is_default = (
        (F.col("type") == ConfigRecord.NAME)
        & (F.get_json_object("payload", "$.data.resourceType") == str(BROKER_RESOURCE))
        & (F.get_json_object("payload", "$.data.resourceName") == "")
        & _is_min_isr(F.col("payload"))
    )
    is_clear = (F.col("type") == ClearElrRecord.NAME) & (F.coalesce("topic", F.lit("")) == "")
    everywhere = F.explode(F.sequence(F.lit(0), F.lit(buckets - 1))).alias("bucket")
    events = rows.where(is_default | is_clear).select("*", everywhere)
    return _input(events, F.col("bucket"), F.lit(None).cast("string"), F.lit(False))


def _every_bucket(spark: SparkSession, buckets: int) -> DataFrame:
    """Return a row for each bucket, so that what it holds open is looked after."""
    numbers = spark.range(buckets).select(F.col("id").cast("int").alias("bucket"))
    begin = F.lit(-1).cast("long")
    nothing = {
        field.name: F.lit(None).cast(spark_type(field.type)).alias(field.name)
        for field in INPUT
        if field.name not in ("bucket", "first", "last")
    }
    return numbers.select("bucket", begin.alias("first"), begin.alias("last"), *nothing.values())


def _by_name(rows: DataFrame) -> DataFrame:
    """Return records that name a topic, with the ids that had this name by then or before."""
    named = rows.where(_names_a_topic(_columns(rows))).drop("topic_id", "home")
    topics = (
        rows.where(F.col("type") == TopicRecord.NAME)
        .groupBy(F.col("topic").alias("name"), "topic_id", "home")
        .agg(F.min("replay_offset").alias("created"))
    )
    return named.join(
        topics, (F.col("topic") == F.col("name")) & (F.col("replay_offset") >= F.col("created"))
    )


def _columns(rows: DataFrame) -> Column:
    return F.struct(*(F.col(name) for name in ("topic", "type", "payload")))


def _input(events: DataFrame, bucket: Column, topic_id: Column, is_first: Column) -> DataFrame:
    position = F.col("replay_offset") * 2 + F.when(F.col("snapshot"), 0).otherwise(1)
    event = F.struct(
        *(
            F.unix_micros("replay_time").alias(name) if name == "time" else F.col(name)
            for name in EVENT.names
        )
    )
    return events.select(
        bucket.alias("bucket"),
        position.alias("first"),
        position.alias("last"),
        F.lit(None).cast("long").alias("snapshot_end"),
        F.lit(None).cast("string").alias("file_name"),
        F.lit(None).cast("binary").alias("blob"),
        topic_id.alias("topic_id"),
        is_first.alias("is_first"),
        event.alias("event"),
    )
