"""Availability of each topic on each day.

Equal lives of partitions, and equal outages, are counted before they are cut into days.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.derive.log_end import milliseconds
from analytics.derive.shortages import LEADERLESS, UNDER_MIN_ISR, UNWRITABLE

_KINDS = (LEADERLESS, UNDER_MIN_ISR, UNWRITABLE)


def availability(lives: DataFrame, shortages: DataFrame) -> DataFrame:
    """Return the table of availability.

    Args:
        lives: Of schema `lives.LIFE`, from every bucket.
        shortages: Of schema `shortages.SHORTAGE`, from every bucket.
    """
    same = ("topic", "topic_id", "from_time", "to_time")
    lives = lives.groupBy(*same).agg(F.sum("count").alias("count"))
    alive = (
        _per_day(lives)
        .groupBy("topic", "topic_id", "day")
        .agg(
            F.sum("count").alias("partitions"),
            F.sum(F.col("count") * F.col("ms")).alias("partition_ms"),
        )
    )
    same = ("topic_id", "kind", "from_time", "to_time")
    short = shortages.groupBy(*same).agg(F.sum("count").alias("count"))
    lost = _per_day(short).groupBy("topic_id", "day").agg(*(_sum_of(kind) for kind in _KINDS))
    lost_ms = {kind: F.coalesce(f"{kind}_ms", F.lit(0)) for kind in _KINDS}
    return alive.join(lost, ["topic_id", "day"], "left").select(
        *alive.columns,
        *(ms.alias(f"{kind}_ms") for kind, ms in lost_ms.items()),
        _share_left(lost_ms[LEADERLESS]).alias("availability"),
        _share_left(lost_ms[UNWRITABLE]).alias("write_availability"),
    )


def _share_left(lost_ms: Column) -> Column:
    return F.when(F.col("partition_ms") > 0, 1 - lost_ms / F.col("partition_ms"))


def _per_day(spans: DataFrame) -> DataFrame:
    """Cut spans at midnight; `ms` is what of a span lies in the `day`."""
    # A clock that was set back makes a span end before it began.
    until = F.greatest("from_time", "to_time")
    days = F.sequence(F.to_date("from_time"), F.to_date(until))
    start = F.col("day").cast("timestamp")
    next_day = F.date_add("day", 1).cast("timestamp")
    ms = milliseconds(F.greatest(start, "from_time"), F.least(next_day, until))
    return (
        spans.where(F.col("from_time").isNotNull() & F.col("to_time").isNotNull())
        .withColumn("day", F.explode(days))
        .withColumn("ms", ms)
        # A span that ends at midnight has no part in the new day.
        .where((F.col("ms") > 0) | (F.to_date("from_time") == F.col("day")))
    )


def _sum_of(kind: str) -> Column:
    ms = F.when(F.col("kind") == kind, F.col("count") * F.col("ms"))
    return F.coalesce(F.sum(ms), F.lit(0)).alias(f"{kind}_ms")
