"""Every ordinary call of a reader opens a table: the column `cluster` comes from the path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.store.part_files import PartWriters, empty_file
from analytics.store.store import Store
from analytics.tables.catalog import PARTITIONS

WRITTEN = [("a", 0), ("a", 1), ("b", 0)]

Rows = Iterator[tuple[str, int, list[int]]]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of two clusters; of a third one there are no rows."""
    root = tmp_path_factory.mktemp("readers")
    for number, (cluster, partition) in enumerate(WRITTEN):
        row = {"topic": "orders", "partition": partition, "replicas": [1, 2]}
        rows = pa.Table.from_pylist([row], PARTITIONS.schema)
        with PartWriters(Store(str(root)), cluster, f"{number:05}") as writers:
            writers.write(PARTITIONS, rows)
    empty_file(Store(str(root)), PARTITIONS, "c")
    return root


def of_arrow(table: pa.Table) -> Rows:
    for row in table.to_pylist():
        yield row["cluster"], row["partition"], row["replicas"]


def by_dataset(folder: Path) -> Rows:
    return of_arrow(ds.dataset(folder, partitioning="hive").to_table())


def by_dataset_with_format(folder: Path) -> Rows:
    return of_arrow(ds.dataset(folder, format="parquet", partitioning="hive").to_table())


def by_parquet(folder: Path) -> Rows:
    return of_arrow(pq.read_table(folder))


def by_pandas(folder: Path) -> Rows:
    frame = pd.read_parquet(folder)
    return zip(frame["cluster"], frame["partition"], map(list, frame["replicas"]), strict=True)


def by_pandas_with_filter(folder: Path) -> Rows:
    for cluster in "abc":
        rows = pd.read_parquet(folder, filters=[("cluster", "=", cluster)])
        yield from zip(rows["cluster"], rows["partition"], map(list, rows["replicas"]), strict=True)


def by_polars(folder: Path) -> Rows:
    frame = pl.read_parquet(folder)
    return iter(frame.select("cluster", "partition", "replicas").rows())


def by_duckdb(folder: Path) -> Rows:
    question = "SELECT cluster, partition, replicas FROM read_parquet(?, hive_partitioning = true)"
    with duckdb.connect() as connection:
        return iter(connection.execute(question, [f"{folder}/*/*.parquet"]).fetchall())


def by_duckdb_with_a_pattern(folder: Path) -> Rows:
    question = f"SELECT cluster, partition, replicas FROM '{folder}/**/*.parquet'"
    with duckdb.connect() as connection:
        return iter(connection.execute(question).fetchall())


@pytest.mark.parametrize(
    "read",
    [
        by_dataset,
        by_dataset_with_format,
        by_parquet,
        by_pandas,
        by_pandas_with_filter,
        by_polars,
        by_duckdb,
        by_duckdb_with_a_pattern,
    ],
    ids=lambda read: str(read.__name__),
)
def test_a_reader_opens_the_folder_of_a_table(read: Callable[[Path], Any], output: Path) -> None:
    found = sorted((str(row[0]), row[1], list(row[2])) for row in read(output / "partitions"))

    assert found == [(cluster, partition, [1, 2]) for cluster, partition in WRITTEN]


@pytest.mark.spark
def test_spark_opens_the_folder_of_a_table(spark: SparkSession, output: Path) -> None:
    frame = spark.read.parquet(str(output / "partitions"))

    rows = frame.select("cluster", "partition", "replicas").collect()
    assert sorted(tuple(row) for row in rows) == [(c, number, [1, 2]) for c, number in WRITTEN]
    assert frame.schema["cluster"].dataType.simpleString() == "string"
