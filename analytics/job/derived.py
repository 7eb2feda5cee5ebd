"""All derived tables, each from the tables that it needs.

Tasks derive what one bucket gives. What concerns several buckets is summed up by the driver: by
then it is few rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.availability import AVAILABILITY
from analytics.derive.broker_failures import known_broker_failures
from analytics.derive.bucket_tables import OF_PARTITIONS, SMALL_TABLES
from analytics.derive.change_counts import CHANGE_COUNTS
from analytics.derive.controller_changes import CONTROLLER_CHANGES
from analytics.derive.directory_failures import (
    Failure,
    failure_columns,
    failure_row,
    known_failures,
    with_begin,
)
from analytics.derive.failures import Failures
from analytics.derive.gauges import GAUGES
from analytics.derive.log_end import LogEnd, log_end
from analytics.derive.record_rates import record_rates
from analytics.derive.skew import SKEW
from analytics.derive.what_if import what_if, who_is_alive
from analytics.store.questions import Questions
from analytics.store.stored_tables import StoredTables
from analytics.tables import catalog as t

OF_TASKS = (*OF_PARTITIONS, *SMALL_TABLES)
"""Derived tables whose rows the tasks write."""

_SUMS = {
    t.CONTROLLER_CHANGES: CONTROLLER_CHANGES,
    t.SKEW: SKEW,
    t.AVAILABILITY: AVAILABILITY,
    t.GAUGES: GAUGES,
    t.CHANGE_COUNTS: CHANGE_COUNTS,
}
"""The question that gives each table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known before any partition was followed."""

    failures: Sequence[Failure]
    columns: Failures
    end: LogEnd


def known(tables: StoredTables) -> Known:
    """Return the failures, and the end of the log.

    Args:
        tables: With those of what is no partition's.
    """
    failures = [*known_failures(tables), *known_broker_failures(tables)]
    columns = failure_columns(failures)
    columns = with_begin(columns, np.zeros(len(failures), dtype=np.int64))
    return Known(failures=failures, columns=columns, end=log_end(tables))


def sum_up(
    facts: Known, parts: Sequence[Mapping[str, Any]], tables: StoredTables
) -> Iterator[tuple[t.Table, pa.Table]]:
    """Derive the tables that concern several buckets.

    Args:
        facts: What was known.
        parts: Rows of FAILURE_PART.
        tables: The tables of records and facts, and those of SMALL_TABLES.

    Yields:
        Each table and its rows, in no order.
    """
    found: dict[int, list[Mapping[str, Any]]] = {}
    for part in parts:
        found.setdefault(part["failure"], []).append(part)
    made: dict[t.Table, list[dict[str, object]]] = {t.DIRECTORY_FAILURES: [], t.BROKER_FAILURES: []}
    for number, failure in enumerate(facts.failures):
        table = t.BROKER_FAILURES if failure.directory is None else t.DIRECTORY_FAILURES
        made[table].append(failure_row(failure, found.get(number, [])))
    for table, rows in made.items():
        yield table, pa.Table.from_pylist(rows, table.schema)
    with Questions(tables) as questions:
        for table, sql in _SUMS.items():
            yield table, questions.table(sql, table.schema)
        yield t.WHAT_IF, what_if(questions, who_is_alive(tables))
        yield t.RECORD_RATES, questions.table(record_rates(facts.end), t.RECORD_RATES.schema)
