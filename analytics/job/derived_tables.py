"""All derived tables, each from the tables that it needs.

Tasks go through the buckets of partitions. What concerns several buckets is summed up at the end:
by then it is few rows, which lie in files, and questions to them need no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import DataFrame, SparkSession

from analytics.derive.availability import AVAILABILITY
from analytics.derive.broker_failures import known_broker_failures
from analytics.derive.bucket_tables import GAUGE_STEPS, SMALL_TABLES
from analytics.derive.change_counts import CHANGE_COUNTS
from analytics.derive.controller_changes import CONTROLLER_CHANGES
from analytics.derive.directory_failures import failure_columns, known_failures, with_begin
from analytics.derive.gauges import GAUGES, failure_steps
from analytics.derive.log_end import LogEnd, log_end
from analytics.derive.record_rates import record_rates
from analytics.derive.skew import SKEW
from analytics.derive.unknown_records import UNKNOWN_RECORDS
from analytics.derive.what_if import what_if, who_is_alive
from analytics.job.derive_stage import (
    BY_TASKS,
    FAILURE,
    BucketFiles,
    count_touched,
    derive_buckets,
    sum_up_failures,
    tell,
)
from analytics.job.row_kinds import of_kind
from analytics.store.part_files import PartWriters, WrittenFile
from analytics.store.questions import Questions
from analytics.store.stored_tables import StoredTables
from analytics.tables import catalog as t
from analytics.tables.frames import by_driver, few_rows_here

OF_TASKS = (*BY_TASKS, *SMALL_TABLES)
"""Tables whose files `derive_by_tasks` names."""

_SUMS = {
    t.CONTROLLER_CHANGES: CONTROLLER_CHANGES,
    t.SKEW: SKEW,
    t.AVAILABILITY: AVAILABILITY,
    t.GAUGES: GAUGES,
    t.CHANGE_COUNTS: CHANGE_COUNTS,
    t.UNKNOWN_RECORDS: UNKNOWN_RECORDS,
}
"""The question that gives each table."""


def derive_by_tasks(
    spark: SparkSession,
    tables: StoredTables,
    files: BucketFiles,
    keep: Callable[[DataFrame], DataFrame],
) -> list[WrittenFile]:
    """Derive what the buckets give, and the tables of failures.

    Args:
        spark: The session.
        tables: The tables of records and facts, as they were written.
        files: The files of the buckets, and where the tables of OF_TASKS are written.
        keep: Keeps a frame of which several things are made.

    Returns:
        The files of OF_TASKS.
    """
    end = log_end(tables)
    failures = [*known_failures(tables), *known_broker_failures(tables)]
    columns = failure_columns(failures)
    known = with_begin(columns, count_touched(spark, columns, files))
    with PartWriters(files.parts, "failures") as writers:
        writers.write(GAUGE_STEPS, failure_steps(known, end), still=True)
    of_buckets = keep(derive_buckets(spark, known, end, files))
    of_tasks, count = tell(of_buckets)
    parts, are_few = few_rows_here(of_kind(of_buckets, FAILURE), count)
    with by_driver(spark, are_few):
        of_failures = sum_up_failures(parts, failures, files.parts).collect()
    return [*writers.files, *of_tasks, *of_failures]


def sum_up(tables: StoredTables) -> Iterator[tuple[t.Table, pa.Table]]:
    """Derive the tables that concern several buckets.

    Args:
        tables: The tables of records and facts, and those of SMALL_TABLES.

    Yields:
        Each table and its rows, in no order.
    """
    end: LogEnd = log_end(tables)
    with Questions(tables) as questions:
        for table, sql in _SUMS.items():
            yield table, questions.table(sql, table.schema)
        yield t.WHAT_IF, what_if(questions, who_is_alive(tables))
        yield t.RECORD_RATES, questions.table(record_rates(end), t.RECORD_RATES.schema)
