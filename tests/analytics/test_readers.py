"""Every ordinary call of a reader opens a table: the column `cluster` comes from the path."""

from __future__ import annotations

from collections.abc import Callable
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

from analytics.store.part_files import PartWriters, fill
from analytics.store.store import Store
from analytics.tables.catalog import PARTITIONS

WRITTEN = [("a", 0), ("a", 1), ("b", 0)]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of two clusters; of a third one there are no rows."""
    root = tmp_path_factory.mktemp("readers")
    for number, (cluster, partition) in enumerate(WRITTEN):
        row = {"topic": "orders", "partition": partition, "replicas": [1, 2]}
        rows = pa.Table.from_pylist([row], PARTITIONS.schema)
        with PartWriters(Store(str(root)), cluster, f"{number:05}") as writers:
            writers.write(PARTITIONS, rows)
    fill(Store(str(root)), PARTITIONS, ["c"])
    return root


def of_pandas(folder: Path, **how: Any) -> list[dict[str, Any]]:
    return pd.read_parquet(folder, **how).to_dict("records")


def of_duckdb(source: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        return connection.sql(f"FROM {source}").to_arrow_table().to_pylist()


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "dataset": lambda folder: ds.dataset(folder, partitioning="hive").to_table().to_pylist(),
    "dataset with a format": lambda folder: (
        ds.dataset(folder, format="parquet", partitioning="hive").to_table().to_pylist()
    ),
    "parquet": lambda folder: pq.read_table(folder).to_pylist(),
    "pandas": of_pandas,
    "pandas with a filter": lambda folder: [
        row for one in "abc" for row in of_pandas(folder, filters=[("cluster", "=", one)])
    ],
    "polars": lambda folder: pl.read_parquet(folder).to_dicts(),
    "duckdb": lambda folder: of_duckdb(
        f"read_parquet('{folder}/*/*.parquet', hive_partitioning = true)"
    ),
    "duckdb with a pattern": lambda folder: of_duckdb(f"'{folder}/**/*.parquet'"),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_opens_the_folder_of_a_table(reader: str, output: Path) -> None:
    rows = READERS[reader](output / "partitions")

    found = sorted((str(row["cluster"]), row["partition"], list(row["replicas"])) for row in rows)
    assert found == [(cluster, partition, [1, 2]) for cluster, partition in WRITTEN]


@pytest.mark.spark
def test_spark_opens_the_folder_of_a_table(spark: SparkSession, output: Path) -> None:
    frame = spark.read.parquet(str(output / "partitions"))

    rows = frame.select("cluster", "partition", "replicas").collect()
    assert sorted(tuple(row) for row in rows) == [(c, number, [1, 2]) for c, number in WRITTEN]
    assert frame.schema["cluster"].dataType.simpleString() == "string"
