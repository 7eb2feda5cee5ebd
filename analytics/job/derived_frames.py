"""All derived tables, each from the tables that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from analytics.derive.availability import availability
from analytics.derive.broker_failures import known_broker_failures
from analytics.derive.bucket_tables import CHANGES, GAUGES, LIVES, PLACES, SHORTAGES
from analytics.derive.controller_changes import controller_changes
from analytics.derive.directory_failures import failure_columns, known_failures, with_begin
from analytics.derive.gauges import failure_steps, gauges
from analytics.derive.log_end import log_end
from analytics.derive.record_rates import record_rates
from analytics.derive.skew import skew
from analytics.derive.what_if import what_if, who_is_alive
from analytics.job.derive_stage import (
    BucketFiles,
    count_touched,
    derive_buckets,
    sum_up_failures,
)
from analytics.job.row_kinds import of_kind
from analytics.store.table_files import StoredTables
from analytics.tables import catalog as t
from analytics.tables.frames import run_sql

_CHANGE_COUNTS = """
    SELECT what, from_time, change, cause, sum(changes) AS changes, sum(to_none) AS to_none
    FROM {changes} GROUP BY what, from_time, change, cause
"""


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


def derive_tables(
    spark: SparkSession,
    tables: StoredTables,
    files: BucketFiles,
    keep: Callable[[DataFrame], DataFrame],
) -> Derived:
    """Derive every table.

    Args:
        spark: The session.
        tables: The tables of records and facts, as they were written.
        files: The files of the buckets, and where the tables of BY_TASKS are written.
        keep: Keeps a frame of which several things are made.
    """
    end = log_end(tables)
    failures = [*known_failures(tables), *known_broker_failures(tables)]
    columns = failure_columns(failures)
    known = with_begin(columns, count_touched(spark, columns, files))
    of_buckets = keep(derive_buckets(spark, known, end, files))
    of_failures = sum_up_failures(of_buckets, failures, files.parts)
    of_failed = spark.createDataFrame(failure_steps(known, end))
    frames = {
        t.CONTROLLER_CHANGES: controller_changes(tables),
        t.SKEW: skew(tables, of_kind(of_buckets, PLACES)),
        t.WHAT_IF: what_if(tables, who_is_alive(tables)),
        t.AVAILABILITY: availability(of_kind(of_buckets, LIVES), of_kind(of_buckets, SHORTAGES)),
        t.GAUGES: gauges(of_kind(of_buckets, GAUGES).unionByName(of_failed)),
        t.RECORD_RATES: record_rates(tables.some(t.RECORDS, ("timestamp", "type")), end),
        t.CHANGE_COUNTS: run_sql(_CHANGE_COUNTS, {"changes": of_kind(of_buckets, CHANGES)}),
    }
    return Derived(of_buckets=of_buckets, of_failures=of_failures, frames=frames)
