"""Availability of each topic on each day.

Equal lives of partitions, and equal outages, are counted before they are cut into days.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from analytics.derive.shortages import LEADERLESS, UNDER_MIN_ISR, UNWRITABLE
from analytics.tables.frames import run_sql

_KINDS = (LEADERLESS, UNDER_MIN_ISR, UNWRITABLE)


def availability(lives: DataFrame, shortages: DataFrame) -> DataFrame:
    """Return the table of availability.

    Args:
        lives: Of schema `lives.LIFE`, from every bucket.
        shortages: Of schema `shortages.SHORTAGE`, from every bucket.
    """
    lost = ", ".join(
        f"sum(count * ms) FILTER (WHERE kind = '{kind}') AS {kind}_ms" for kind in _KINDS
    )
    lost_ms = ", ".join(f"coalesce({kind}_ms, 0) AS {kind}_ms" for kind in _KINDS)
    return run_sql(
        f"""
        SELECT *, CASE WHEN partition_ms > 0 THEN 1 - {LEADERLESS}_ms / partition_ms END
            AS availability,
          CASE WHEN partition_ms > 0 THEN 1 - {UNWRITABLE}_ms / partition_ms END
            AS write_availability
        FROM (
          SELECT topic, topic_id, day, partitions, partition_ms, {lost_ms}
          FROM (
            SELECT topic, topic_id, day, sum(count) AS partitions, sum(count * ms) AS partition_ms
            FROM {_per_day("lives", "topic, topic_id")} GROUP BY topic, topic_id, day
          ) LEFT JOIN (
            SELECT topic_id, day, {lost}
            FROM {_per_day("shortages", "topic_id, kind")} GROUP BY topic_id, day
          ) USING (topic_id, day)
        )
        """,
        {"lives": lives, "shortages": shortages},
    )


def _per_day(frame: str, keys: str) -> str:
    """Return SQL for spans cut at midnight; `ms` is what of a span lies in the `day`."""
    # A clock that was set back makes a span end before it began.
    spans = f"""
        SELECT {keys}, from_time, greatest(from_time, to_time) AS until, sum(count) AS count
        FROM {{{frame}}} WHERE from_time IS NOT NULL AND to_time IS NOT NULL
        GROUP BY {keys}, from_time, to_time
    """
    days = f"""
        SELECT *, explode(sequence(to_date(from_time), to_date(until))) AS day FROM ({spans})
    """
    # A span that ends at midnight has no part in the new day.
    return f"""(
        SELECT * FROM (
          SELECT *, unix_millis(least(CAST(date_add(day, 1) AS TIMESTAMP), until))
            - unix_millis(greatest(CAST(day AS TIMESTAMP), from_time)) AS ms FROM ({days})
        ) WHERE ms > 0 OR to_date(from_time) = day
    )"""
