"""Tables as they lie in a store, for Spark and others to ask.

Whatever the store is, files are read by `pyarrow`: on the driver as long as they are few bytes,
else by tasks. So a cluster needs no connector of its own for the store that a replay writes to, and
no second configuration of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.dataset as ds  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from analytics.store.store import Store, StoredFile
from analytics.tables.frames import local_frame, map_batches, map_numbers
from analytics.tables.table import Table

DRIVER_BYTES_MAX = 4 << 20
"""Up to so many bytes of files the driver reads a table: questions to it need no task at all."""

ROWS_PER_BATCH = 1 << 16

SUFFIX = ".parquet"

_WRITTEN = pa.schema([pa.field("name", pa.string())])


def read_table(
    spark: SparkSession, table: Table, folder: str, names: Collection[str] | None = None
) -> DataFrame:
    """Return the rows of a table, those of one cluster.

    Args:
        spark: The session.
        table: The table.
        folder: Path or URI of the folder of its files.
        names: Of the files that belong to it; all in the folder without it.

    Raises:
        OSError: the folder cannot be listed.
    """
    return read_files(spark, Store(folder), "", table.schema, names)


def read_files(
    spark: SparkSession,
    store: Store,
    folder: str,
    schema: pa.Schema,
    names: Collection[str] | None = None,
) -> DataFrame:
    """Return what Parquet files in a folder hold.

    Args:
        spark: The session.
        store: Where the folder is.
        folder: Its name.
        schema: Columns that are wanted of them.
        names: Of the files, all without it.
    """
    files = _files(store, folder, names)
    paths = [store.path(one.name) for one in files]
    if sum(one.size for one in files) <= DRIVER_BYTES_MAX:
        rows = pa.concat_tables([schema.empty_table(), *_tables(store, paths, schema)])
        return local_frame(spark, rows)
    tasks = min(len(paths), max(2, spark.sparkContext.defaultParallelism * 2))
    return map_numbers(spark, len(paths), tasks, _reader(store.source, paths, schema), schema)


def _files(store: Store, folder: str, names: Collection[str] | None) -> list[StoredFile]:
    return [
        one
        for one in store.files_in(folder)
        if one.name.endswith(SUFFIX) and (names is None or PurePosixPath(one.name).name in names)
    ]


def values_of(store: Store, folder: str, names: Iterable[str], column: str) -> set[object]:
    """Return the different values of one column of Parquet files, read by the caller itself."""
    found: set[object] = set()
    for name in names:
        with pq.ParquetFile(store.path(f"{folder}/{name}"), filesystem=store.files) as file:
            for batch in file.iter_batches(ROWS_PER_BATCH, columns=[column]):
                found.update(batch.column(0).unique().to_pylist())
    return found


def write_files(rows: DataFrame, store: Store, folder: str, schema: pa.Schema, tasks: int) -> None:
    """Write rows into Parquet files of a folder that is new.

    Args:
        rows: Of the schema.
        store: Where the folder is made.
        folder: Its name.
        schema: Of the rows.
        tasks: How many files there are at most.
    """
    store.make_folder(folder)
    chosen = rows.select(*schema.names).coalesce(tasks)
    written = map_batches(chosen, _writer(store.source, folder, schema), _WRITTEN).collect()
    names = {row["name"] for row in written}
    for name in store.names(folder):
        if name not in names:  # of an attempt that failed, or was overtaken
            store.remove(f"{folder}/{name}")


def _writer(
    source: str, folder: str, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = Store(source)
        name = f"{uuid.uuid4().hex}{SUFFIX}"
        with pq.ParquetWriter(
            store.path(f"{folder}/{name}"), schema, filesystem=store.files
        ) as writer:
            for batch in batches:
                writer.write_table(pa.table(batch).cast(schema))
        yield pa.RecordBatch.from_pydict({"name": [name]})

    return write


def _tables(store: Store, paths: Sequence[str], schema: pa.Schema) -> Iterator[pa.Table]:
    for path in paths:
        with pq.ParquetFile(path, filesystem=store.files) as file:
            yield file.read(columns=schema.names).select(schema.names).cast(schema)


def _reader(
    source: str, paths: Sequence[str], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = Store(source)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with pq.ParquetFile(paths[number], filesystem=store.files) as file:
                    for rows in file.iter_batches(ROWS_PER_BATCH, columns=schema.names):
                        own = pa.table(rows).select(schema.names).cast(schema)
                        yield from own.to_batches()

    return read


class StoredTables(Mapping[str, DataFrame]):
    """The tables of one cluster by their names; each is read when it is asked for.

    Args:
        spark: The session.
        tables: The tables.
        folder_of: Path or URI of the folder of a table's files.
        names: For a table the names of its files, if not all in the folder are.
    """

    def __init__(
        self,
        spark: SparkSession,
        tables: Iterable[Table],
        folder_of: Callable[[Table], str],
        names: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self.spark = spark
        self.tables = {table.name: table for table in tables}
        self.folder_of = folder_of
        self.names = names
        self.frames: dict[str, DataFrame] = {}

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self.frames:
            table = self.tables[name]
            self.frames[name] = read_table(
                self.spark, table, self.folder_of(table), self.names.get(name)
            )
        return self.frames[name]

    def some(self, table: Table, columns: Sequence[str]) -> DataFrame:
        """Return columns of a table; no others are read."""
        store, schema = Store(self.folder_of(table)), _some(table, columns)
        return read_files(self.spark, store, "", schema, self.names.get(table.name))

    def dataset(self, name: str) -> ds.Dataset:
        """Return a table for others than Spark to read, who take of it what they need."""
        table = self.tables[name]
        store = Store(self.folder_of(table))
        paths = [store.path(one.name) for one in _files(store, "", self.names.get(name))]
        return ds.dataset(paths, table.schema, format="parquet", filesystem=store.files)

    def rows(self, table: Table, columns: Sequence[str]) -> pa.Table:
        """Return columns of a table that has few rows, read by the caller itself."""
        store, schema = Store(self.folder_of(table)), _some(table, columns)
        files = _files(store, "", self.names.get(table.name))
        paths = [store.path(one.name) for one in files]
        return pa.concat_tables([schema.empty_table(), *_tables(store, paths, schema)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)


def _some(table: Table, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([table.schema.field(name) for name in columns])
