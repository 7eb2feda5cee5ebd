"""When another controller took over, and how long nothing was written before."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.derive.log_end import milliseconds


def controller_changes(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the table of controller changes, from those of epochs and of record counts."""
    last = (
        tables["record_counts"]
        .groupBy("epoch")
        .agg(
            F.max("last_offset").alias("last_offset"),
            F.max_by("last_time", "last_offset").alias("last_time"),
        )
    )
    # One row for each election, so that they fit anywhere.
    in_order = Window.partitionBy(F.lit(0)).orderBy("epoch")
    before = {
        "previous_epoch": "epoch",
        "previous_controller": "controller",
        "last_offset": "last_offset",
        "last_time": "last_time",
    }
    return (
        tables["controller_epochs"]
        .join(last, "epoch", "left")
        .select(
            "epoch",
            "controller",
            "from_offset",
            "from_time",
            *(F.lag(name).over(in_order).alias(alias) for alias, name in before.items()),
        )
        .where(F.col("previous_epoch").isNotNull())
        .withColumn("gap_ms", milliseconds(F.col("last_time"), F.col("from_time")))
    )
