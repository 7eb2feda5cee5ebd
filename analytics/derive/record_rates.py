"""How many records of each type were written over time."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.derive.log_end import LogEnd


def record_rates(records: DataFrame, end: LogEnd) -> DataFrame:
    """Return the table of record rates.

    Args:
        records: The table of records, of which two columns are read.
        end: End of the log.
    """
    width = F.lit(end.bucket_ms).cast("long")
    ms = F.unix_millis("timestamp")
    begin = F.timestamp_millis(ms - F.pmod(ms, width))
    return records.groupBy(begin.alias("from_time"), "type").agg(
        F.count("*").alias("records"), F.max(width).alias("stretch_ms")
    )
