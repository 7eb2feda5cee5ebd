"""How many records of each type were written over time."""

from __future__ import annotations

from pyspark.sql import DataFrame

from analytics.derive.log_end import LogEnd
from analytics.tables.frames import run_sql


def record_rates(records: DataFrame, end: LogEnd) -> DataFrame:
    """Return the table of record rates.

    Args:
        records: Two columns of the table of records, `timestamp` and `type`.
        end: End of the log.
    """
    return run_sql(
        f"""
        SELECT timestamp_millis(ms - pmod(ms, {end.bucket_ms}L)) AS from_time, type,
          count(*) AS records, {end.bucket_ms}L AS stretch_ms
        FROM (SELECT unix_millis(timestamp) AS ms, type FROM {{records}}) GROUP BY from_time, type
        """,
        {"records": records},
    )
