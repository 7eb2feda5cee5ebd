"""The end of the log, up to which counts what still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.derive.log_span import LogSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The time of the last record; None if there is none, or if its time is not known."""

    time_us: int | None
    """Microseconds since 1970."""
    bucket_ms: int
    """Length of the stretches of time that changes are counted by."""

    @property
    def time(self) -> Column:
        """The time as a literal."""
        return F.timestamp_micros(F.lit(self.time_us).cast("long"))


def log_end(tables: Mapping[str, DataFrame]) -> LogEnd:
    """Return the end of the log; without any records, the end of the snapshot."""
    (row,) = (
        tables["record_counts"]
        .agg(
            F.max_by(F.unix_micros("last_time"), "last_offset").alias("last"),
            F.unix_millis(F.min("earliest_time")).alias("earliest_ms"),
            F.unix_millis(F.max("latest_time")).alias("latest_ms"),
        )
        .collect()
    )
    found: int | None = row["last"]
    if found is None:
        since = F.max(F.unix_micros("valid_from_time"))
        found = tables["brokers"].agg(since.alias("time")).collect()[0]["time"]
    span = LogSpan(first_ms=row["earliest_ms"], last_ms=row["latest_ms"], end_ms=None)
    return LogEnd(time_us=found, bucket_ms=span.bucket_ms)


def milliseconds(start: Column, end: Column) -> Column:
    """Return the milliseconds from one time to another."""
    return F.unix_millis(end) - F.unix_millis(start)
