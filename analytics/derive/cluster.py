"""The derived tables that concern several buckets: DuckDB answers `cluster_sql` on the driver.

The buckets have left few rows by then; the queries read a few columns of the tables of facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.bucket_rows import BucketRows
from analytics.derive.log_end import log_end
from analytics.derive.sql_files import Scope, SqlFiles, texts
from analytics.derive.what_if import kind_losses
from analytics.store.questions import Readable
from analytics.tables.derived import DERIVED_TABLES, FAILURES
from analytics.tables.table import Table

CLUSTER_TABLES = tuple(each for each in DERIVED_TABLES if each.name in texts(Scope.CLUSTER))
"""The tables that concern several buckets."""


class Tables(Readable, BucketRows, Protocol):
    """The tables of one cluster."""


def known_failures(tables: Tables) -> pa.Table:
    """Return the failures that the log tells of, as the buckets are asked about them.

    Args:
        tables: `log_dirs`, `broker_sessions`, `record_counts`, `snapshot_records` and `brokers`.
    """
    with SqlFiles(Scope.CLUSTER, tables, log_end(tables)) as sql:
        return sql.answer(FAILURES)


def derive_cluster(tables: Tables) -> Iterator[tuple[Table, pa.Table]]:
    """Derive the tables that concern several buckets.

    Args:
        tables: Those of records and facts, and those of BUCKET_SUMS.

    Yields:
        Each of CLUSTER_TABLES and its rows, in no order.
    """
    with SqlFiles(Scope.CLUSTER, tables, log_end(tables)) as sql:
        sql.give("kind_losses", kind_losses(sql.made("distinct_kinds").to_pylist()))
        for table in CLUSTER_TABLES:
            yield table, sql.answer(table)
