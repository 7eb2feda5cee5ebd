"""Questions in SQL to tables of clusters, answered by DuckDB in the process that asks.

A question that goes over a log, or over all partitions, is work for Spark's tasks. A report asks
for a few rows of tables that are there already, fifty times: to plan that would take Spark far
longer than to do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.tables.names_in_sql import names_in
from analytics.tables.table import CLUSTER

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


_OF_FILES = f"""
    * EXCLUDE (filename), regexp_extract(filename, '.*/{CLUSTER}=([^/]*)/', 1) AS {CLUSTER}
"""
"""Columns of a table in files: the name of a folder is that of the cluster."""


Words = Mapping[str, Mapping[str, str]]
"""SQL that `$word` in a query stands for, by cluster: the same words for each."""


class Questions(ExitStack):
    """Asks tables, each of which is looked at when a question first names it; to be left again.

    Args:
        tables: Gives a table by its name: a list of Parquet files on this machine, rows of Arrow or
            a dataset.
    """

    def __init__(self, tables: Callable[[str], Any]) -> None:
        super().__init__()
        self._tables = tables
        self._known: set[str] = set()
        self._connection = self.enter_context(connection())
        # DuckDB 2.0 does not find the columns of some lateral joins after it.
        self._connection.execute("SET disabled_optimizers = 'cte_inlining'")

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

    def rows_of_each(
        self, words: Words, sql: str, columns: str = "*", rest: str = ""
    ) -> list[tuple[Any, ...]]:
        """Return columns of the rows that a query on one cluster's tables gives for each cluster.

        The column `cluster` names it. Of several, DuckDB makes one plan of a lateral join, in which
        groups, windows, joins and limits of the query are by cluster; `rest` follows its FROM.
        """
        self._prepare(sql)
        (cluster, own), *others = words.items()
        if not others:  # to plan a join takes longer than to answer
            rows = f"SELECT '{cluster}' AS {CLUSTER}, * FROM (\n{Template(sql).substitute(own)}\n)"
        else:
            values = (", ".join((f"'{name}'", *each.values())) for name, each in words.items())
            asked = f"(VALUES ({'), ('.join(values)})) asked({', '.join((CLUSTER, *own))})"
            tables = ", ".join(
                f"{name} AS (FROM main.{name} WHERE {CLUSTER} = asked.{CLUSTER})"
                for name in names_in(sql)
            )
            query = Template(sql).substitute({word: f"asked.{word}" for word in own})
            rows = (
                f"SELECT asked.{CLUSTER}, own.* FROM {asked}, "
                f"LATERAL (WITH {tables} FROM (\n{query}\n)) own"
            )
        return self._connection.execute(f"SELECT {columns} FROM ({rows}) {rest}").fetchall()

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
        found = self._tables(name)
        if isinstance(found, list):
            files = self._connection.read_parquet(found, filename=True)
            files.project(_OF_FILES).create_view(name)
        else:
            self._connection.register(name, found)
