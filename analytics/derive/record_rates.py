"""How many records of each type were written over time."""

from __future__ import annotations

from analytics.derive.log_end import LogEnd
from analytics.derive.log_span import bucket_sql


def record_rates(end: LogEnd) -> str:
    """Return the question that gives the table of record rates, from that of records."""
    return f"""
        SELECT {bucket_sql("timestamp", end.bucket_ms)} AS from_time, type,
          count(*) AS records, {end.bucket_ms} AS stretch_ms
        FROM {{records}} GROUP BY ALL
    """
