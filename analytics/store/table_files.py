"""Tables as they lie in a store, for Spark to ask, and its rows as files.

Whatever the store is, files are read by `pyarrow`: on the driver as long as they are few bytes,
else by tasks. So a cluster needs no connector of its own for the store that a replay writes to, and
no second configuration of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from analytics.store.store import Store
from analytics.store.stored_tables import ROWS_PER_BATCH, SUFFIX, files_of, rows_of
from analytics.tables.frames import local_frame, map_batches, map_numbers
from analytics.tables.table import Table

DRIVER_BYTES_MAX = 4 << 20
"""Up to so many bytes of files the driver reads a table: questions to it need no task at all."""

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
    files = files_of(store, folder, names)
    paths = [store.path(one.name) for one in files]
    if sum(one.size for one in files) <= DRIVER_BYTES_MAX:
        rows = pa.concat_tables([schema.empty_table(), *rows_of(store, paths, schema)])
        return local_frame(spark, rows)
    tasks = min(len(paths), max(2, spark.sparkContext.defaultParallelism * 2))
    return map_numbers(spark, len(paths), tasks, _reader(store.source, paths, schema), schema)


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
