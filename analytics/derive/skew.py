"""How evenly replicas lie on brokers, and on the online directories of a broker."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.derive.placed import COUNTS
from analytics.fold.broker_registration import ONLINE


def skew(tables: Mapping[str, DataFrame], placed: DataFrame) -> DataFrame:
    """Return the table of skew: a row per registered broker and per online directory.

    Args:
        tables: The tables of facts.
        placed: Of schema `placed.PLACED`, from every bucket.
    """
    counts = (F.sum(name).alias(name) for name in COUNTS)
    placed = placed.groupBy("broker", "directory").agg(*counts)
    online = (
        tables["log_dirs"]
        .where((F.col("state") == ONLINE) & F.col("valid_to_offset").isNull())
        .select("broker", "directory")
    )
    directories = _counted(online, placed, ["broker", "directory"])
    per_broker = placed.groupBy("broker").agg(*(F.sum(name).alias(name) for name in COUNTS))
    brokers = _counted(tables["brokers"].select("broker"), per_broker, ["broker"]).withColumn(
        "directory", F.lit(None).cast("string")
    )
    of_broker = directories.groupBy(F.col("broker").alias("peers")).agg(*_peers())
    of_all = brokers.agg(*_peers())
    return _compared(
        directories.join(of_broker, F.col("broker") == F.col("peers")), "directory"
    ).unionByName(_compared(brokers.crossJoin(of_all), "broker"))


def _counted(things: DataFrame, placed: DataFrame, keys: list[str]) -> DataFrame:
    counts = (F.coalesce(name, F.lit(0)).alias(name) for name in COUNTS)
    return things.join(placed, keys, "left").select(*keys, *counts)


def _peers() -> tuple[Column, ...]:
    means = (F.avg(name).alias(f"mean_{name}") for name in ("replicas", "leaders"))
    return F.sum("replicas").alias("total"), *means


def _compared(frame: DataFrame, scope: str) -> DataFrame:
    replicas, total = F.col("replicas"), F.col("total")
    return frame.select(
        F.lit(scope).alias("scope"),
        "broker",
        "directory",
        *COUNTS,
        F.when(total > 0, replicas / total).alias("share_of_replicas"),
        "mean_replicas",
        _off_the_mean("replicas").alias("deviation"),
        "mean_leaders",
        _off_the_mean("leaders").alias("leader_deviation"),
    )


def _off_the_mean(name: str) -> Column:
    mean = F.col(f"mean_{name}")
    return F.when(mean > 0, F.col(name) / mean - 1)
