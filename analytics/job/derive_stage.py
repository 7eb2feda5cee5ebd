"""The stage that goes through the buckets of partitions once more, for what is derived of them.

A task reads the files of its buckets and writes rows of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark.sql import SparkSession

from analytics.derive.bucket import BUCKET_TABLES, derive_bucket
from analytics.derive.bucket_rows import NEEDED, RowsOfFiles
from analytics.derive.log_end import LogEnd
from analytics.job.scan_stage import FILE
from analytics.store.part_files import PartFiles, PartWriters, WrittenFile
from analytics.store.store import Store
from analytics.tables.frames import map_numbers

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The files of the buckets, and where to write."""

    files: Mapping[int, Mapping[str, Sequence[str]]]
    """For each bucket the names in the store, by the name of the table."""
    parts: PartFiles


def derive_buckets(
    spark: SparkSession, failures: pa.Table, end: LogEnd, files: BucketFiles
) -> list[WrittenFile]:
    """Derive what each bucket gives.

    Args:
        spark: The session.
        failures: As `derive.cluster.known_failures` gives them.
        end: End of the log.
        files: The files of the buckets.

    Returns:
        The files of the tables of a bucket.
    """
    count = max(1, len(files.files))
    found = map_numbers(spark, count, count, _deriver(files, failures, end), FILE)
    return [row.asDict() for row in found.collect()]


def _deriver(files: BucketFiles, failures: pa.Table, end: LogEnd) -> Callable[[Batches], Batches]:
    buckets = list(files.files.items())

    def derive_files(batches: Batches) -> Batches:
        store = Store(files.parts.folder)
        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            bucket, own = buckets[number] if buckets else (0, {})
            rows = RowsOfFiles(store, own)
            tables = {table: rows.rows(table, names) for table, names in NEEDED.items()}
            found = derive_bucket(tables, failures, end)
            with PartWriters(files.parts, f"{bucket:05d}") as writers:
                for table in BUCKET_TABLES:
                    writers.write(table, found[table], still=True)
            if writers.files:
                yield pa.RecordBatch.from_pylist(writers.files, schema=FILE)

    return derive_files
