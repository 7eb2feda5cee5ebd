"""Availability of each topic on each day.

Equal lives of partitions, and equal outages, are counted before they are cut into days.
"""

from __future__ import annotations

from analytics.derive.shortages import LEADERLESS, UNDER_MIN_ISR, UNWRITABLE

_KINDS = (LEADERLESS, UNDER_MIN_ISR, UNWRITABLE)


def _per_day(table: str, keys: str) -> str:
    """Return SQL for spans cut at midnight; `ms` is what of a span lies in the `day`."""
    # A clock that was set back makes a span end before it began.
    spans = f"""
        SELECT {keys}, from_time, greatest(from_time, to_time) AS until, sum(count) AS count
        FROM {{{table}}} WHERE from_time IS NOT NULL AND to_time IS NOT NULL
        GROUP BY {keys}, from_time, to_time
    """
    days = f"""
        SELECT *, CAST(unnest(range(CAST(from_time AS DATE), CAST(until AS DATE) + 1,
          INTERVAL 1 DAY)) AS DATE) AS day FROM ({spans})
    """
    # A span that ends at midnight has no part in the new day.
    return f"""(
        SELECT * FROM (
          SELECT *, epoch_ms(least(CAST(day + 1 AS TIMESTAMPTZ), until))
            - epoch_ms(greatest(CAST(day AS TIMESTAMPTZ), from_time)) AS ms FROM ({days})
        ) WHERE ms > 0 OR CAST(from_time AS DATE) = day
    )"""


_LOST = ", ".join(f"sum(count * ms) FILTER (WHERE kind = '{kind}') AS {kind}_ms" for kind in _KINDS)
_LOST_MS = ", ".join(f"coalesce({kind}_ms, 0) AS {kind}_ms" for kind in _KINDS)

AVAILABILITY = f"""
    SELECT *, CASE WHEN partition_ms > 0 THEN 1 - {LEADERLESS}_ms / partition_ms END
        AS availability,
      CASE WHEN partition_ms > 0 THEN 1 - {UNWRITABLE}_ms / partition_ms END
        AS write_availability
    FROM (
      SELECT topic, topic_id, day, partitions, partition_ms, {_LOST_MS}
      FROM (
        SELECT topic, topic_id, day, sum(count) AS partitions, sum(count * ms) AS partition_ms
        FROM {_per_day("lives", "topic, topic_id")} GROUP BY topic, topic_id, day
      ) LEFT JOIN (
        SELECT topic_id, day, {_LOST}
        FROM {_per_day("shortages", "topic_id, kind")} GROUP BY topic_id, day
      ) USING (topic_id, day)
    )
"""
"""The question that gives the table, from `lives` and `shortages` of every bucket."""
