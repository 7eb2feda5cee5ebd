"""How evenly replicas lie on brokers, and on the online directories of a broker."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.broker_fold import ONLINE

_COUNTS = ("replicas", "leaders", "preferred_leaders")


def skew(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the table of skew: a row per registered broker and per online directory."""
    replica = F.posexplode(F.arrays_zip("replicas", "directories")).alias("position", "replica")
    placed = (
        tables["partitions"]
        .select("leader", replica)
        .groupBy(
            F.col("replica.replicas").alias("broker"),
            F.col("replica.directories").alias("directory"),
        )
        .agg(
            F.count("*").alias("replicas"),
            F.count_if(F.col("leader") == F.col("replica.replicas")).alias("leaders"),
            F.count_if(F.col("position") == 0).alias("preferred_leaders"),
        )
    )
    online = (
        tables["log_dirs"]
        .where((F.col("state") == ONLINE) & F.col("valid_to_offset").isNull())
        .select("broker", "directory")
    )
    directories = _counted(online, placed, ["broker", "directory"])
    per_broker = placed.groupBy("broker").agg(*(F.sum(name).alias(name) for name in _COUNTS))
    brokers = _counted(tables["brokers"].select("broker"), per_broker, ["broker"]).withColumn(
        "directory", F.lit(None).cast("string")
    )
    of_broker = directories.groupBy(F.col("broker").alias("peers")).agg(*_peers())
    of_all = brokers.agg(*_peers())
    return _compared(
        directories.join(of_broker, F.col("broker") == F.col("peers")), "directory"
    ).unionByName(_compared(brokers.crossJoin(of_all), "broker"))


def _counted(things: DataFrame, placed: DataFrame, keys: list[str]) -> DataFrame:
    counts = (F.coalesce(name, F.lit(0)).alias(name) for name in _COUNTS)
    return things.join(placed, keys, "left").select(*keys, *counts)


def _peers() -> tuple[Column, Column]:
    return F.sum("replicas").alias("total"), F.avg("replicas").alias("mean_replicas")


def _compared(frame: DataFrame, scope: str) -> DataFrame:
    replicas, mean, total = F.col("replicas"), F.col("mean_replicas"), F.col("total")
    return frame.select(
        F.lit(scope).alias("scope"),
        "broker",
        "directory",
        *_COUNTS,
        F.when(total > 0, replicas / total).alias("share_of_replicas"),
        mean,
        F.when(mean > 0, replicas / mean - 1).alias("deviation"),
    )
