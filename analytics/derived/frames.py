"""All derived tables, each from the tables that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from analytics import tables as t
from analytics.derived.availability import availability
from analytics.derived.bucket_stage import (
    FAILURE,
    LIFE,
    BucketFiles,
    count_touched,
    derive_buckets,
)
from analytics.derived.bucket_tables import OF_PARTITIONS
from analytics.derived.directory_failures import directory_failures, known_failures, with_begin
from analytics.derived.log_end import log_end
from analytics.derived.skew import skew
from analytics.kinds import of_kind

Tables = Mapping[str, DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """What is derived, not yet computed but for the end of the log and the list of failures.

    Attributes:
        of_buckets: What the buckets give; several tables are made of it.
        frames: Tables for Spark to write.
    """

    of_buckets: DataFrame
    frames: dict[t.Table, DataFrame]


def derive_tables(tables: Tables, files: BucketFiles | None = None) -> Derived:
    """Derive every table.

    Args:
        tables: The tables of records and facts, by name, as they were written.
        files: Where tasks read and write files by themselves: these; the tables of OF_PARTITIONS
            are then no frames.
    """
    end = log_end(tables)
    failures = known_failures(tables[t.LOG_DIRS.name])
    counts = count_touched(tables, failures.columns, files)
    known = with_begin(failures.columns, counts)
    of_buckets = derive_buckets(tables, known, end.time_us, files)
    frames = {
        t.DIRECTORY_FAILURES: directory_failures(failures.frame, of_kind(of_buckets, FAILURE)),
        t.SKEW: skew(tables),
        t.AVAILABILITY: availability(of_kind(of_buckets, LIFE), tables["outages"], end),
    }
    if files is None:
        frames |= {table: of_kind(of_buckets, table.name) for table in OF_PARTITIONS}
    conformed = {table: t.conform(frame, table) for table, frame in frames.items()}
    return Derived(of_buckets=of_buckets, frames=conformed)
