"""The derived tables that concern several buckets: DuckDB answers `cluster_sql` on the driver.

The buckets have left few rows by then; the queries read a few columns of the tables of facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.log_end import LogEnd, TableRows
from analytics.derive.sql_files import Scope, SqlFiles, texts
from analytics.derive.what_if import kind_losses
from analytics.store.questions import Readable
from analytics.tables.derived import DERIVED_TABLES, FAILURES
from analytics.tables.table import Table

CLUSTER_TABLES = tuple(each for each in DERIVED_TABLES if each.name in texts(Scope.CLUSTER))
"""The tables that concern several buckets."""


class Tables(Readable, TableRows, Protocol):
    """The tables of one cluster."""


class ClusterSql(SqlFiles):
    """Derives tables in two steps; a table is looked at by the step that reads it.

    Args:
        tables: Those of the cluster.
        end: End of the log.
    """

    def __init__(self, tables: Tables, end: LogEnd) -> None:
        super().__init__(Scope.CLUSTER, tables, end)

    def known_failures(self) -> pa.Table:
        """Return the failures that the log tells of, as the buckets are asked about them.

        It reads `log_dirs`, `broker_sessions`, `record_counts` and `snapshot_records`.
        """
        return self.answer(FAILURES)

    def derive(self) -> Iterator[tuple[Table, pa.Table]]:
        """Yield each of CLUSTER_TABLES and its rows, in no order.

        It reads the tables of records and facts, and those of BUCKET_SUMS.
        """
        self.give("kind_losses", kind_losses(self.made("distinct_kinds").to_pylist()))
        for table in CLUSTER_TABLES:
            yield table, self.answer(table)
