"""Failures of log directories: what each one touched, and how the cluster came round.

A failure is an interval in which a directory is offline. There are few of them; what they did to
partitions is found bucket by bucket (`failure_parts`) and summed up here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.types import StructField, StructType

from analytics.broker_fold import OFFLINE
from analytics.columns.arrays import Longs
from analytics.derived.failure_parts import Failures
from analytics.derived.log_end import milliseconds
from analytics.history.arrow_reading import FOR_EVER
from analytics.history.blocks import NO_TIME
from analytics.table import INT

_FAILURE = ("broker", "directory", "detected_offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailures:
    """All failures: as rows for Spark, with a number each, and as columns for tasks."""

    frame: DataFrame
    columns: Failures


def known_failures(log_dirs: DataFrame) -> KnownFailures:
    """Return the failures that the table of log directories tells of."""
    found = log_dirs.where(F.col("state") == OFFLINE).select(
        "broker",
        "directory",
        F.col("valid_from_offset").alias("detected_offset"),
        F.col("valid_from_time").alias("detected_time"),
        F.col("batch_base_offset").alias("batch"),
        F.col("valid_to_offset").alias("back_offset"),
        F.col("valid_to_time").alias("back_time"),
        F.col("ended_by").alias("back_by"),
        # A time of Spark becomes a local time of this process when it is collected.
        F.unix_micros("valid_from_time").alias("us"),
    )
    rows = sorted(found.collect(), key=lambda row: tuple(row[name] for name in _FAILURE))
    offset = np.array([row["detected_offset"] for row in rows], dtype=np.int64)
    columns = Failures(
        broker=np.array([row["broker"] for row in rows], dtype=np.int64),
        directory=tuple(row["directory"] for row in rows),
        offset=offset,
        time=_or(offset, [row["us"] for row in rows], NO_TIME),
        batch=np.minimum(_or(offset, [row["batch"] for row in rows], FOR_EVER), offset),
        back=_or(offset, [row["back_offset"] for row in rows], FOR_EVER),
    )
    numbers = StructType([StructField("failure", INT), *found.select(*_FAILURE).schema])
    numbered = log_dirs.sparkSession.createDataFrame(
        [(number, *(row[name] for name in _FAILURE)) for number, row in enumerate(rows)], numbers
    )
    return KnownFailures(frame=found.drop("us").join(numbered, list(_FAILURE)), columns=columns)


def with_begin(failures: Failures, touched: Longs) -> Failures:
    """Return failures with the first offset at which something may have been done about them.

    Args:
        failures: All of them.
        touched: How many replicas each one touched: the result changes each at most once.
    """
    return replace(failures, since=np.minimum(failures.batch, failures.offset - touched))


def directory_failures(failures: DataFrame, parts: DataFrame) -> DataFrame:
    """Return the table of directory failures.

    Args:
        failures: The failures with their numbers.
        parts: Of schema `FAILURE_PART`, at most one row for a failure and bucket.
    """
    summed = parts.groupBy("failure").agg(
        F.sum("touched").alias("partitions_touched"),
        F.sum("moved").alias("leaders_moved"),
        F.sum("lost").alias("leaders_lost"),
        F.max("last_leader").alias("last_leader"),
        # The last of moments counts when there are no more to come.
        F.when(F.sum("left") == F.sum("touched"), F.max("last_left")).alias("all_left"),
        F.when(F.sum("done") == F.sum("touched"), F.max("last_done")).alias("all_done"),
        F.array_sort(F.flatten(F.collect_list("partitions"))).alias("partitions"),
    )
    return _summed_up(failures.join(summed, "failure", "left"))


def _or(like: Longs, values: list[int | None], nothing: int) -> Longs:
    found = [nothing if value is None else value for value in values]
    return np.array(found, dtype=like.dtype)


def _moment(prefix: str) -> Column:
    return F.struct(
        F.col(f"{prefix}_offset").alias("offset"), F.col(f"{prefix}_time").alias("time")
    )


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
    whole = F.when(none, _moment("detected")).otherwise(F.col("all_done"))
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
