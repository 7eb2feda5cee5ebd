"""Failures of log directories: what each one touched, and how the cluster came round.

A failure is an interval in which a directory is offline. It touches the replicas that were placed
in it at that moment; what the controller does about them stands before the record of the failure,
in its batch or, if that is full, in those right before.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.broker_fold import OFFLINE
from analytics.derived.log_end import milliseconds
from analytics.derived.small_side import joined_with_few
from jbodlab.ids import NO_LEADER

_FAILURE = ("broker", "directory", "detected_offset")
_PARTITION = ("topic_id", "partition")
_FOR_EVER = 2**63 - 1
_GONE = ("replica_removed", "topic_deleted")


def directory_failures(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the table of directory failures."""
    failures = (
        tables["log_dirs"]
        .where(F.col("state") == OFFLINE)
        .select(
            "broker",
            "directory",
            F.col("valid_from_offset").alias("detected_offset"),
            F.col("valid_from_time").alias("detected_time"),
            F.col("batch_base_offset").alias("batch"),
            F.col("valid_to_offset").alias("back_offset"),
            F.col("valid_to_time").alias("back_time"),
            F.col("ended_by").alias("back_by"),
        )
    )
    touched = _touched(failures, tables["replica_placement"])
    placed = touched.groupBy(*_FAILURE).agg(
        F.count("*").alias("partitions_touched"),
        F.array_sort(F.collect_list(F.concat_ws("-", "topic", "partition"))).alias("partitions"),
        _last("left").alias("all_left"),
    )
    # The result of one failure changes each partition at most once, just before its record.
    windows = touched.join(
        F.broadcast(
            placed.select(
                *_FAILURE,
                (F.col("detected_offset") - F.col("partitions_touched")).alias("earliest"),
            )
        ),
        list(_FAILURE),
    ).withColumn("since", F.least("batch", "earliest"))
    led = _led(windows, tables["leadership"])
    healed = _healed(touched, tables["partition_history"])
    found = failures
    for part in (placed, led, healed):
        found = found.join(F.broadcast(part), list(_FAILURE), "left")
    return _summed_up(found)


def _touched(failures: DataFrame, placement: DataFrame) -> DataFrame:
    """Return a row per failure and partition: `left`, when the replica left the directory."""
    ended = F.col("valid_to_offset").isNotNull()
    moment = F.struct(
        F.col("valid_to_offset").alias("offset"), F.col("valid_to_time").alias("time")
    )
    places = placement.select(
        "topic",
        *_PARTITION,
        "broker",
        "directory",
        "valid_from_offset",
        F.coalesce("valid_to_offset", F.lit(_FOR_EVER)).alias("place_to"),
        F.when(ended, moment).alias("left"),
        F.when(ended & F.col("ended_by").isin(*_GONE), moment).alias("gone"),
    )
    return (
        places.join(F.broadcast(failures), ["broker", "directory"])
        .where(F.col("valid_from_offset") < F.col("detected_offset"))
        .where(F.col("place_to") > F.col("detected_offset"))
        .drop("valid_from_offset", "place_to")
    )


def _led(windows: DataFrame, leadership: DataFrame) -> DataFrame:
    """Return per failure what became of the partitions that were led from the directory."""
    changes = leadership.where(F.col("previous_leader").isNotNull()).select(
        *_PARTITION, "leader", "previous_leader", "valid_from_offset", "valid_from_time"
    )
    moment = F.struct(
        F.col("valid_from_offset").alias("offset"), F.col("valid_from_time").alias("time")
    )
    has_leader = F.col("leader") != NO_LEADER
    partitions = windows.select(*_FAILURE, *_PARTITION, "since", "back_offset")
    per_partition = (
        joined_with_few(changes, partitions, list(_PARTITION), "inner")
        .where(F.col("valid_from_offset") >= F.col("since"))
        .groupBy(*_FAILURE, *_PARTITION, "back_offset")
        .agg(
            F.min_by(F.struct("previous_leader", "leader"), "valid_from_offset").alias("first"),
            F.min("valid_from_offset").alias("first_offset"),
            F.min(F.when(has_leader, moment)).alias("new_leader"),
        )
        .where(F.col("first.previous_leader") == F.col("broker"))
        .where(F.col("first_offset") <= F.coalesce("back_offset", F.lit(_FOR_EVER)))
    )
    return per_partition.groupBy(*_FAILURE).agg(
        F.count_if(F.col("first.leader") != NO_LEADER).alias("leaders_moved"),
        F.count_if(F.col("first.leader") == NO_LEADER).alias("leaders_lost"),
        F.max("new_leader").alias("last_leader"),
    )


def _healed(touched: DataFrame, history: DataFrame) -> DataFrame:
    """Return per failure when the last of its partitions was whole again, or gone."""
    whole = history.where(
        (F.col("leader") != NO_LEADER) & (F.size("isr") >= F.size("replicas"))
    ).select(
        *_PARTITION,
        "valid_from_offset",
        "valid_from_time",
        F.coalesce("valid_to_offset", F.lit(_FOR_EVER)).alias("state_to"),
    )
    keys = (*_FAILURE, "detected_time", *_PARTITION, "gone")
    already = F.col("valid_from_offset") <= F.col("detected_offset")
    moment = F.struct(
        F.greatest("valid_from_offset", "detected_offset").alias("offset"),
        F.when(already, F.col("detected_time")).otherwise(F.col("valid_from_time")).alias("time"),
    )
    partitions = touched.select(*_FAILURE, "detected_time", *_PARTITION)
    again = (
        joined_with_few(whole, partitions, list(_PARTITION), "inner")
        .where(F.col("state_to") > F.col("detected_offset"))
        .groupBy(*_FAILURE, *_PARTITION)
        .agg(F.min(moment).alias("whole"))
    )
    return (
        touched.select(*keys)
        .join(again, [*_FAILURE, *_PARTITION], "left")
        .withColumn("done", F.least("whole", "gone"))
        .groupBy(*_FAILURE)
        .agg(_last("done").alias("all_done"))
    )


def _last(moment: str) -> Column:
    """Return the last of moments, null if one of them is."""
    return F.when(F.count(moment) == F.count("*"), F.max(moment))


def _summed_up(found: DataFrame) -> DataFrame:
    back = F.struct(
        F.col("back_offset").alias("offset"),
        F.col("back_time").alias("time"),
        F.col("back_by").alias("by"),
    )
    left = F.struct("all_left.offset", "all_left.time", F.lit("replicas_gone").alias("by"))
    closed = F.least(
        F.when(F.col("back_offset").isNotNull(), back),
        F.when(F.col("all_left").isNotNull(), left),
    )
    none = F.coalesce("partitions_touched", F.lit(0)) == 0
    at_once = F.struct(
        F.col("detected_offset").alias("offset"), F.col("detected_time").alias("time")
    )
    whole = F.when(none, at_once).otherwise(F.col("all_done"))
    return found.withColumns({"closed": closed, "whole": whole}).select(
        *_FAILURE,
        "detected_time",
        *(
            F.coalesce(name, F.lit(0)).alias(name)
            for name in ("partitions_touched", "leaders_moved", "leaders_lost")
        ),
        F.col("last_leader.offset").alias("last_leader_offset"),
        F.col("last_leader.time").alias("last_leader_time"),
        milliseconds(F.col("detected_time"), F.col("last_leader.time")).alias(
            "time_to_last_leader_ms"
        ),
        F.col("whole.offset").alias("full_isr_offset"),
        F.col("whole.time").alias("full_isr_time"),
        milliseconds(F.col("detected_time"), F.col("whole.time")).alias("time_to_full_isr_ms"),
        F.when(F.col("closed").isNull(), "open").otherwise("closed").alias("state"),
        F.col("closed.offset").alias("closed_offset"),
        F.col("closed.time").alias("closed_time"),
        F.col("closed.by").alias("closed_by"),
        F.coalesce("partitions", F.array().cast("array<string>")).alias("partitions"),
    )
