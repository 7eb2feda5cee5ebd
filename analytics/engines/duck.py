"""The local engine: DuckDB in this process, without Java.

It has the rows of a log in memory or as files, and runs the texts of `analytics/tables` in its own
dialect. A step that is kept, and a table that others read, becomes a table of DuckDB; of a log of
few rows also a step that several texts read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.engines.functions import FUNCTIONS, ArrowFunction, plain
from analytics.engines.sql import in_duckdb
from analytics.store.questions import connection
from analytics.tables.sql_files import CALLS, needed, sql_files, times_read
from analytics.tables.table import CLUSTER, STRING

_FUNCTIONS = """
    CREATE MACRO timestamp_micros(us) AS make_timestamptz(us);
    -- Of a negative number the remainder is one, too.
    CREATE MACRO pmod(one, other) AS (one % other + other) % other;
"""
"""Functions of Spark that DuckDB has under another name, and SQLGlot does not know."""


_NUMBERED = (CLUSTER, "topic", "topic_id")
"""Columns that rows are joined, grouped and put in order by. Each text is a number for DuckDB, an
ENUM in the order of texts: windows and joins then take a fifth less."""


AT_ONCE = 2
"""Tables that are made side by side: DuckDB's threads share one query, but small ones, functions,
sorting for a file and writing it take one thread each."""

FEW_ROWS = 10_000
"""Of the views, up to which a text takes longer to plan than to answer: a step that several texts
read is planned, and answered, once."""

ROWS_AT_ONCE = 1 << 21
"""Rows of large logs that a function is called with."""

_ROWS_OF_PART = 122_880
"""Rows of a row group: a thread of DuckDB scans as many of its own tables at once."""


class DuckEngine(ExitStack):
    """Runs tables over views; to be left again.

    Args:
        views: The base views, by name: something of Arrow, or a list of Parquet files.
    """

    def __init__(self, views: Mapping[str, Any]) -> None:
        super().__init__()
        self._connection = self.enter_context(connection())
        self._connection.execute(_FUNCTIONS)
        self._known: set[str] = set()
        self._arrow: dict[str, pa.Table] = {}
        self._own = threading.local()
        self._is_of_files = any(isinstance(source, list) for source in views.values())
        self._is_of_few = not self._is_of_files and sum(map(len, views.values())) <= FEW_ROWS
        given = {name: self._given(name, source) for name, source in views.items()}
        for column in _NUMBERED:
            texts = [
                f"SELECT DISTINCT {column} FROM {rows.alias}"
                for rows in given.values()
                if column in rows.columns
            ]
            each = " UNION ".join(texts or ["SELECT ''"])
            self._cursor.execute(f"CREATE TYPE {column}_enum AS ENUM ({each} ORDER BY 1)")
        for name, rows in given.items():
            self._view(name, rows)

    @property
    def _cursor(self) -> duckdb.DuckDBPyConnection:
        """The connection of this thread. All share tables and views, but each has its own Arrow."""
        own = self._own
        if not hasattr(own, "cursor"):
            own.cursor = self.enter_context(self._connection.cursor())
            own.arrow = set()
        cursor: duckdb.DuckDBPyConnection = own.cursor
        for name in self._arrow.copy().keys() - own.arrow:
            cursor.register(name, self._arrow[name])
            own.arrow.add(name)
        return cursor

    def _given(self, name: str, source: Any) -> duckdb.DuckDBPyRelation:
        """Return rows of Arrow, or of a list of Parquet files, under a name of their own."""
        given = f"{name}_given"
        if isinstance(source, list):
            self._cursor.read_parquet(source).create_view(given)
        else:
            self._arrow[given] = _in_parts(source)
        return self._cursor.table(given).set_alias(given)

    def _view(self, name: str, rows: duckdb.DuckDBPyRelation) -> None:
        columns = (
            f"{column}::{column}_enum AS {column}" if column in _NUMBERED else f'"{column}"'
            for column in rows.columns
        )
        self._cursor.execute(f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM {rows.alias}")
        self._known.add(name)

    def _lacking(self, names: Iterable[str]) -> TopologicalSorter[str]:
        """Return what is still to be made for some files: files, and functions that they read."""
        graph = {
            each.name: set(each.reads) for each in needed(names) if each.name not in self._known
        }
        called = FUNCTIONS.keys() & set(chain.from_iterable(graph.values())) - self._known
        graph |= {name: {CALLS[name]} for name in called}
        return TopologicalSorter({name: reads & graph.keys() for name, reads in graph.items()})

    def make_all(self, names: Collection[str], take: Callable[[str, pa.Table], None]) -> None:
        """Make tables side by side.

        Args:
            names: Of the tables.
            take: Called with the name and the rows of each, in their order, from some threads.
        """
        order = self._lacking(names)
        order.prepare()
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tables")

        def give(name: str) -> None:
            take(name, self.rows(name))

        try:
            making: dict[Future[None], str] = {}
            given = [pool.submit(give, name) for name in names if name in self._known]
            while order.is_active():
                for name in order.get_ready():
                    is_leaf = name in names and name not in times_read()
                    job = give if is_leaf else self._make
                    making[pool.submit(job, name)] = name
                for done in wait(making, return_when=FIRST_COMPLETED).done:
                    done.result()
                    name = making.pop(done)
                    order.done(name)
                    if name in names and name in times_read():
                        given.append(pool.submit(give, name))
            for each in given:
                each.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def rows(self, name: str) -> pa.Table:
        """Return the rows of a table in its order, `cluster` first."""
        file = sql_files()[name]
        table = file.table
        assert table is not None
        for each in self._lacking([name]).static_order():
            if each != name or name in times_read():
                self._make(each)
        asked = name if name in self._known else f"({in_duckdb(file.sql)})"
        keys = ", ".join(f'"{key}"' for key in (CLUSTER, *table.order))
        found: pa.Table = self._cursor.sql(f"FROM {asked} ORDER BY {keys}").to_arrow_table()
        schema = pa.schema([pa.field(CLUSTER, STRING), *table.schema])
        return found.select(schema.names).cast(schema)

    def ask(self, sql: str) -> duckdb.DuckDBPyRelation:
        """Ask a question in DuckDB's dialect to tables that were made before."""
        return self._cursor.sql(sql)

    def make(self, *names: str) -> None:
        """Make tables or steps and all that they read."""
        for name in self._lacking(names).static_order():
            self._make(name)

    def _make(self, name: str) -> None:
        """Make a table or a step, or call a function; what it reads is there."""
        if name in FUNCTIONS:
            self._call(FUNCTIONS[name], name)
        else:
            file = sql_files()[name]
            is_asked_once = self._is_of_few and times_read()[name] > 1
            is_kept = file.is_kept or file.table is not None or is_asked_once
            kind = "TABLE" if is_kept else "VIEW"
            self._cursor.execute(f"CREATE {kind} {name} AS {in_duckdb(file.sql)}")
        self._known.add(name)

    def _call(self, function: ArrowFunction, name: str) -> None:
        """Keep what a function of Arrow makes of a step."""
        if function.is_of_many:
            found = self._of_many(function)
        else:
            rows = self._cursor.sql(f"FROM {function.reads}").to_arrow_table()
            found = function.of_all(_texts(rows))
        self._view(name, self._given(name, found))

    def _of_many(self, function: ArrowFunction) -> pa.Table | list[str]:
        """Call a function with all rows, or with some groups after the others where they are many.

        Returns:
            Rows, or files.
        """
        if not self._is_of_files:
            return function.call(self._cursor.sql(f"FROM {function.reads}").to_arrow_table())
        self._cursor.execute(f"CREATE TEMP TABLE given_rows AS FROM {function.reads}")
        (size,) = self._cursor.execute("SELECT count(*) FROM given_rows").fetchall()[0]
        parts = size // ROWS_AT_ONCE + 1
        folder = Path(self.enter_context(TemporaryDirectory(prefix="jbod-replay-")))
        files = [str(folder / f"{part}.parquet") for part in range(parts)]
        keys = ", ".join(function.keys)
        for part, file in enumerate(files):
            asked = f"FROM given_rows WHERE hash({keys}) % {parts} = {part}"
            rows = function.call(self._cursor.sql(asked).to_arrow_table())
            pq.write_table(plain(rows, function.schema), file, compression="lz4")
        self._cursor.execute("DROP TABLE given_rows")
        return files


def _in_parts(rows: pa.Table) -> pa.Table:
    """Return rows in parts that threads can take."""
    return pa.Table.from_batches(rows.to_batches(max_chunksize=_ROWS_OF_PART), rows.schema)


def _texts(rows: pa.Table) -> pa.Table:
    """Return rows with texts again where DuckDB has numbers."""
    fields = (
        field.with_type(STRING) if pa.types.is_dictionary(field.type) else field
        for field in rows.schema
    )
    return rows.cast(pa.schema(fields))
