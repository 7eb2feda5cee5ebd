"""Moves of replicas: to another directory of their broker, or to another broker.

The log knows of a move within a broker when its directory is assigned; that it was queued, and that
the copy was put in its place, stays on the broker. A move is reverted when the next assignment on
the broker leads back to the directory before.

A reassignment runs while a partition has adding or removing replicas. When these change while it
runs, it was replaced by another one. Adding and removing replicas are paired in their order.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.derived.log_end import milliseconds
from analytics.derived.placement_steps import MOVED, REMOVED, is_real, steps
from analytics.derived.small_side import joined_with_few
from jbodlab.records.topic_records import PartitionChangeRecord

_PARTITION = ("topic_id", "partition")
_FOR_EVER = 2**63 - 1


def moves(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the table of moves."""
    return _between_directories(tables["replica_placement"]).unionByName(
        _reassignments(tables["partition_history"], tables["replica_placement"])
    )


def _between_directories(placement: DataFrame) -> DataFrame:
    moved = steps(placement).where(is_real(F.col("directory")) & is_real(F.col("next.directory")))
    reverted = F.col("third.directory").eqNullSafe(F.col("directory"))
    ended_time = F.when(reverted, F.col("third.valid_from_time")).otherwise(
        F.col("next.valid_from_time")
    )
    assigned_time = F.col("next.valid_from_time")
    nothing = F.lit(None)
    return moved.select(
        "topic",
        *_PARTITION,
        "broker",
        F.col("directory").alias("from_directory"),
        F.col("next.directory").alias("to_directory"),
        F.lit("directory").alias("kind"),
        F.col("broker").alias("from_broker"),
        F.col("broker").alias("to_broker"),
        nothing.cast("long").alias("queued_offset"),
        nothing.cast("timestamp").alias("queued_time"),
        F.col("next.valid_from_offset").alias("assigned_offset"),
        assigned_time.alias("assigned_time"),
        F.when(reverted, F.col("third.valid_from_offset"))
        .otherwise(F.col("next.valid_from_offset"))
        .alias("ended_offset"),
        ended_time.alias("ended_time"),
        F.when(reverted, "reverted").otherwise("swapped").alias("outcome"),
        # Of one that stayed, the log does not tell when it was begun.
        F.when(reverted, milliseconds(assigned_time, ended_time)).alias("duration_ms"),
    )


def _reassignments(history: DataFrame, placement: DataFrame) -> DataFrame:
    candidates = _with_other_replicas(placement)
    states = joined_with_few(history, candidates, list(_PARTITION), "left_semi")
    pairs = _pairs(_runs(states))
    places = placement.select(
        F.col("topic_id").alias("place_topic_id"),
        F.col("partition").alias("place_partition"),
        F.col("broker").alias("place_broker"),
        F.col("directory").alias("place_directory"),
        F.col("valid_from_offset").alias("place_from"),
        F.col("valid_from_time").alias("place_from_time"),
        F.coalesce("valid_to_offset", F.lit(_FOR_EVER)).alias("place_to"),
    )
    from_place = F.col("place_broker") == F.col("from_broker")
    to_place = F.col("place_broker") == F.col("to_broker")
    at_begin = (F.col("place_from") <= F.col("queued_offset")) & (
        F.col("place_to") >= F.col("queued_offset")
    )
    at_end = (F.col("place_from") <= F.col("ended_offset")) & (
        F.col("place_to") > F.col("ended_offset")
    )
    named = to_place & is_real(F.col("place_directory"))
    meanwhile = (
        named
        & (F.col("place_to") > F.col("queued_offset"))
        & (F.col("place_from") <= F.coalesce("ended_offset", F.lit(_FOR_EVER)))
    )
    first = F.min(
        F.when(
            meanwhile & (F.col("place_from") >= F.col("queued_offset")),
            F.struct("place_from", "place_from_time"),
        )
    )
    return (
        pairs.join(
            places,
            (F.col("topic_id") == F.col("place_topic_id"))
            & (F.col("partition") == F.col("place_partition"))
            & (from_place | to_place),
            "left",
        )
        .groupBy(*pairs.columns)
        .agg(
            F.max_by(
                F.when(from_place & at_begin, F.col("place_directory")),
                F.when(from_place & at_begin, F.col("place_from")),
            ).alias("from_directory"),
            F.max_by(
                F.when(meanwhile, F.col("place_directory")), F.when(meanwhile, F.col("place_from"))
            ).alias("to_directory"),
            first.alias("assigned"),
            F.coalesce(F.bool_or(to_place & at_end), F.lit(False)).alias("arrived"),
            F.coalesce(F.bool_or(from_place & at_end), F.lit(False)).alias("stayed"),
        )
        .select(
            "topic",
            *_PARTITION,
            F.coalesce("from_broker", "to_broker").alias("broker"),
            "from_directory",
            "to_directory",
            F.lit("reassignment").alias("kind"),
            "from_broker",
            "to_broker",
            "queued_offset",
            "queued_time",
            F.col("assigned.place_from").alias("assigned_offset"),
            F.col("assigned.place_from_time").alias("assigned_time"),
            "ended_offset",
            "ended_time",
            _outcome().alias("outcome"),
            milliseconds(F.col("queued_time"), F.col("ended_time")).alias("duration_ms"),
        )
    )


def _with_other_replicas(placement: DataFrame) -> DataFrame:
    """Return the partitions of which a replica was added or removed, mostly few or none.

    A replica that only moved ends one placement for each that it begins.
    """
    began = F.count_if(F.col("record_type") == PartitionChangeRecord.NAME)
    moved = F.count_if(F.col("ended_by") == MOVED)
    removed = F.count_if(F.col("ended_by") == REMOVED)
    return (
        placement.groupBy(*_PARTITION)
        .agg((began > moved).alias("added"), (removed > 0).alias("removed"))
        .where(F.col("added") | F.col("removed"))
        .select(*_PARTITION)
    )


def _runs(history: DataFrame) -> DataFrame:
    """Return one row per reassignment of a partition, from its first state to its last."""
    in_order = Window.partitionBy(*_PARTITION).orderBy("valid_from_offset")
    running = history.where(
        (F.size("adding_replicas") > 0) | (F.size("removing_replicas") > 0)
    ).select(
        "topic",
        *_PARTITION,
        "adding_replicas",
        "removing_replicas",
        "valid_from_offset",
        "valid_from_time",
        "valid_to_offset",
        "valid_to_time",
    )
    goes_on = F.lag("valid_to_offset").over(in_order).eqNullSafe(F.col("valid_from_offset"))
    same = F.lag("adding_replicas").over(in_order).eqNullSafe(F.col("adding_replicas")) & F.lag(
        "removing_replicas"
    ).over(in_order).eqNullSafe(F.col("removing_replicas"))
    replaced = F.lead("valid_from_offset").over(in_order).eqNullSafe(F.col("valid_to_offset"))
    last = F.struct("valid_to_offset", "valid_to_time", "replaced")
    return (
        running.withColumn("begins", F.when(goes_on & same, 0).otherwise(1))
        .withColumn("replaced", replaced)
        .withColumn("run", F.sum("begins").over(in_order))
        .groupBy(*_PARTITION, "run")
        .agg(
            F.first("topic").alias("topic"),
            F.first("adding_replicas").alias("adding"),
            F.first("removing_replicas").alias("removing"),
            F.min("valid_from_offset").alias("queued_offset"),
            F.min_by("valid_from_time", "valid_from_offset").alias("queued_time"),
            F.max_by(last, "valid_from_offset").alias("last"),
        )
        .select(
            "topic",
            *_PARTITION,
            "adding",
            "removing",
            "queued_offset",
            "queued_time",
            F.col("last.valid_to_offset").alias("ended_offset"),
            F.col("last.valid_to_time").alias("ended_time"),
            F.col("last.replaced").alias("replaced"),
        )
    )


def _pairs(runs: DataFrame) -> DataFrame:
    count = F.greatest(F.size("adding"), F.size("removing"))
    return (
        runs.withColumn("number", F.explode(F.sequence(F.lit(1), count)))
        .withColumn("from_broker", F.try_element_at("removing", F.col("number")))
        .withColumn("to_broker", F.try_element_at("adding", F.col("number")))
        .drop("adding", "removing", "number")
    )


def _outcome() -> Column:
    done = F.when(F.col("to_broker").isNotNull(), F.col("arrived")).otherwise(~F.col("stayed"))
    return (
        F.when(F.col("ended_offset").isNull(), "running")
        .when(F.col("replaced") | ~done, "cancelled")
        .otherwise("completed")
    )
