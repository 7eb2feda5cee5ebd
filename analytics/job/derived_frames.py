"""All derived tables, each from the tables that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.derive.availability import availability
from analytics.derive.bucket_tables import CHANGES, LIVES, PLACES
from analytics.derive.directory_failures import failure_columns, known_failures, with_begin
from analytics.derive.log_end import log_end
from analytics.derive.skew import skew
from analytics.job.derive_stage import (
    BucketFiles,
    count_touched,
    derive_buckets,
    sum_up_failures,
)
from analytics.job.row_kinds import of_kind
from analytics.tables import catalog as t
from analytics.tables.frames import conform

Tables = Mapping[str, DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """What is derived, not yet computed but for the end of the log and the list of failures.

    Attributes:
        of_buckets: What the buckets give; other things are made of it.
        of_failures: What the failures give.
        frames: Tables for Spark to write.
    """

    of_buckets: DataFrame
    of_failures: DataFrame
    frames: dict[t.Table, DataFrame]


def derive_tables(spark: SparkSession, tables: Tables, files: BucketFiles) -> Derived:
    """Derive every table.

    Args:
        spark: The session.
        tables: The tables of records and facts, by name, as they were written.
        files: The files of the buckets, and where the tables of BY_TASKS are written.
    """
    end = log_end(tables)
    failures = known_failures(tables[t.LOG_DIRS.name])
    columns = failure_columns(failures)
    known = with_begin(columns, count_touched(spark, columns, files))
    of_buckets = derive_buckets(spark, known, end, files)
    of_failures = sum_up_failures(of_buckets, failures, files.parts)
    frames = {
        t.SKEW: skew(tables, of_kind(of_buckets, PLACES)),
        t.AVAILABILITY: availability(of_kind(of_buckets, LIVES), tables[t.OUTAGES.name], end),
        t.CHANGE_COUNTS: _summed(of_kind(of_buckets, CHANGES)),
    }
    conformed = {table: conform(frame, table) for table, frame in frames.items()}
    return Derived(of_buckets=of_buckets, of_failures=of_failures, frames=conformed)


def _summed(counts: DataFrame) -> DataFrame:
    return counts.groupBy("what", "from_time", "change", "cause").agg(
        F.sum("changes").alias("changes"), F.sum("to_none").alias("to_none")
    )
