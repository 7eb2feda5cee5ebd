"""Questions in SQL to the tables of one cluster, answered by DuckDB in the process that asks.

A question that goes over a log, or over all partitions, is work for Spark's tasks. A report asks
for a few rows of tables that are there already, fifty times: to plan that would take Spark far
longer than to do it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import duckdb
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.tables.names_in_sql import names_in

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    # Nothing is fetched from anywhere, whatever a question is.
    "autoinstall_known_extensions": "false",
    # Nothing comes before everything, as Spark has it too.
    "default_null_order": "nulls_first_on_asc_last_on_desc",
    "TimeZone": "UTC",
}


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in memory, which may put to the disk what does not fit there."""
    with TemporaryDirectory(prefix="jbod-replay-") as spilled:
        settings = {**_SETTINGS, "temp_directory": spilled}
        with duckdb.connect(":memory:", config=settings) as opened:
            # A question that takes long would draw a bar among the lines of an answer.
            opened.execute("SET enable_progress_bar = false")
            yield opened


class Readable(Protocol):
    """Gives tables by their names, as what DuckDB can read: paths, or something of Arrow."""

    def dataset(self, name: str) -> Any:
        """Return a table: a list of Parquet files on this machine, rows or a dataset."""


class GivenTables:
    """Tables of which the caller has the rows."""

    def __init__(self, rows: Mapping[str, pa.Table]) -> None:
        self._rows = rows

    def dataset(self, name: str) -> pa.Table:
        """Return a table."""
        return self._rows[name]


class Questions(ExitStack):
    """Asks tables, each of which is looked at when a question first names it; to be left again."""

    def __init__(self, tables: Readable) -> None:
        super().__init__()
        self._tables = tables
        self._known: set[str] = set()
        self._connection = self.enter_context(connection())

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows that a question gives."""
        self._prepare(sql)
        # A relation would be planned twice.
        found: list[tuple[Any, ...]] = self._connection.execute(sql).fetchall()
        return found

    def named_rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows that a question gives, each by the names of its columns."""
        found: pa.Table = self._ask(sql).to_arrow_table()
        return list(found.to_pylist())

    def table(self, sql: str, schema: pa.Schema) -> pa.Table:
        """Return what a question gives, as columns."""
        found: pa.Table = self._ask(sql).to_arrow_table()
        return found.select(schema.names).cast(schema)

    def _ask(self, sql: str) -> duckdb.DuckDBPyRelation:
        self._prepare(sql)
        return self._connection.sql(sql)

    def _prepare(self, sql: str) -> None:
        """Add the tables that a question reads."""
        for name in names_in(sql):
            if name not in self._known:
                self._add(name)
                self._known.add(name)

    def _add(self, name: str) -> None:
        """Let a question read a table."""
        found = self._tables.dataset(name)
        if isinstance(found, list):
            self._connection.read_parquet(found).create_view(name)
        else:
            self._connection.register(name, found)
