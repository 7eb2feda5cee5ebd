"""All derived tables, each from the tables that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics import tables as t
from analytics.derived.availability import availability
from analytics.derived.bucket_stage import (
    BucketFiles,
    count_touched,
    derive_buckets,
    sum_up_failures,
)
from analytics.derived.bucket_tables import CHANGES, LIVES, OF_PARTITIONS, PLACES
from analytics.derived.directory_failures import failure_columns, known_failures, with_begin
from analytics.derived.log_end import log_end
from analytics.derived.skew import skew
from analytics.kinds import of_kind

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


def derive_tables(tables: Tables, files: BucketFiles | None = None) -> Derived:
    """Derive every table.

    Args:
        tables: The tables of records and facts, by name, as they were written.
        files: Where tasks read and write files by themselves: these; the tables of BY_TASKS are
            then no frames.
    """
    end = log_end(tables)
    failures = known_failures(tables[t.LOG_DIRS.name])
    columns = failure_columns(failures)
    known = with_begin(columns, count_touched(tables, columns, files))
    of_buckets = derive_buckets(tables, known, end, files)
    of_failures = sum_up_failures(of_buckets, failures, None if files is None else files.parts)
    frames = {
        t.SKEW: skew(tables, of_kind(of_buckets, PLACES)),
        t.AVAILABILITY: availability(of_kind(of_buckets, LIVES), tables[t.OUTAGES.name], end),
        t.CHANGE_COUNTS: _summed(of_kind(of_buckets, CHANGES)),
    }
    if files is None:
        frames |= {table: of_kind(of_buckets, table.name) for table in OF_PARTITIONS}
        frames[t.DIRECTORY_FAILURES] = of_kind(of_failures, t.DIRECTORY_FAILURES.name)
    conformed = {table: t.conform(frame, table) for table, frame in frames.items()}
    return Derived(of_buckets=of_buckets, of_failures=of_failures, frames=conformed)


def _summed(counts: DataFrame) -> DataFrame:
    return counts.groupBy("what", "from_time", "change", "cause").agg(
        F.sum("changes").alias("changes"), F.sum("to_none").alias("to_none")
    )
