"""How evenly replicas lie on brokers, and on the online directories of a broker."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from analytics.derive.placed import COUNTS, per_place
from analytics.tables.frames import run_sql

_SKEW = f"""
    SELECT scope, broker, directory, {", ".join(COUNTS)},
      CASE WHEN total > 0 THEN replicas / total END AS share_of_replicas,
      mean_replicas,
      CASE WHEN mean_replicas > 0 THEN replicas / mean_replicas - 1 END AS deviation,
      mean_leaders,
      CASE WHEN mean_leaders > 0 THEN leaders / mean_leaders - 1 END AS leader_deviation
    FROM (
      SELECT *, sum(replicas) OVER peers AS total, avg(replicas) OVER peers AS mean_replicas,
        avg(leaders) OVER peers AS mean_leaders
      FROM ({per_place(COUNTS)})
      WINDOW peers AS (PARTITION BY scope, CASE WHEN scope = 'directory' THEN broker END)
    )
"""


def skew(tables: Mapping[str, DataFrame], placed: DataFrame) -> DataFrame:
    """Return the table of skew: a row per registered broker and per online directory.

    Args:
        tables: The tables of facts.
        placed: Of schema `placed.PLACED`, from every bucket.
    """
    return run_sql(_SKEW, {**_asked(tables), "places": placed})


def _asked(tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    return {name: tables[name] for name in ("brokers", "log_dirs")}
