"""Derived tables: each is an SQL query in one file, and DuckDB answers it.

The queries of `bucket_sql` read the partitions of one bucket, those of `cluster_sql` a whole
cluster. A query reads tables of facts, and those of other files of its folder, which are answered
first. Queries share `macros.sql`; besides, `log_end()` is the time of the last record, and
`stretch_us()` the length of the periods by which changes are counted.

Against arrays in NumPy, a log of a million records costs a second of twenty of processor
time more; no second reading of what the buckets wrote is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib.resources import files

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.log_end import LogEnd
from analytics.store.questions import Questions, Readable
from analytics.tables.names_in_sql import names_in
from analytics.tables.table import Table

_SUFFIX = ".sql"
_US_PER_MS = 1000


class Scope(Enum):
    """Which rows a query reads."""

    BUCKET = "bucket_sql"
    CLUSTER = "cluster_sql"


@cache
def texts(scope: Scope) -> Mapping[str, str]:
    """Return the queries of a scope, by the names of their tables."""
    found = files(__package__).joinpath(scope.value).iterdir()
    return {
        each.name.removesuffix(_SUFFIX): each.read_text("utf-8")
        for each in found
        if each.name.endswith(_SUFFIX)
    }


class SqlFiles(Questions):
    """Answers the queries of a scope; a context manager.

    Args:
        scope: Which ones.
        tables: The tables of facts.
        end: End of the log.
    """

    def __init__(self, scope: Scope, tables: Readable, end: LogEnd) -> None:
        super().__init__(tables)
        self._texts = texts(scope)
        if scope is Scope.BUCKET:
            # A task has one core, and the rows of its bucket are in memory already.
            self._connection.execute("SET threads = 1; SET memory_limit = '1GB'")
        time = "NULL" if end.time_us is None else end.time_us
        self._connection.execute(
            f"CREATE MACRO log_end() AS make_timestamptz({time}::BIGINT);"
            f"CREATE MACRO stretch_us() AS {end.bucket_ms * _US_PER_MS}::BIGINT;"
        )
        macros = files(__package__).joinpath("macros.sql").read_text("utf-8")
        self._connection.execute(macros)

    def answer(self, table: Table) -> pa.Table:
        """Return the rows of a table, in no order."""
        return self.made(table.name).select(table.schema.names).cast(table.schema)

    def made(self, name: str) -> pa.Table:
        """Return the rows of a query, in no order."""
        is_read = any(name in names_in(each) for each in self._texts.values())
        return self._ask(f"FROM {name}" if is_read else self._texts[name]).to_arrow_table()

    def _add(self, name: str) -> None:
        """Let a query read a table, or the answer of another query, which is kept."""
        if name in self._texts:
            self._prepare(self._texts[name])
            self._connection.execute(f"CREATE TEMP TABLE {name} AS {self._texts[name]}")
        else:
            super()._add(name)
