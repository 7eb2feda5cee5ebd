"""Spark makes the tables of all clusters in one plan each, and they are those of each cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.engines import LOCAL
from analytics.job.command import replay
from analytics.job.engine import RunOptions
from analytics.job.output import OutputDir
from analytics.job.spark_tables import SparkTables
from analytics.read.log_copies import labelled
from analytics.read.named_logs import look
from analytics.tables.catalog import TABLES
from analytics.tables.table import Table
from tests.analytics.builders import LogBuilder, RandomHistory
from tests.analytics.shared import FIXTURES

pytestmark = pytest.mark.spark


def test_tables_of_all_clusters_are_those_of_each(spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "4.3.1-disks" / "controller", tmp_path / "disks")
    shutil.copytree(FIXTURES / "3.9.2-admin" / "controller", tmp_path / "admin")
    random = LogBuilder(tmp_path / "random", segment_bytes=8192)
    RandomHistory(random, seed=12).run(120, snapshot_every=50)
    random.close()
    inputs = [f"{name}={tmp_path / name}" for name in ("admin", "disks", "random")]
    output = OutputDir(str(tmp_path / "spark"), TABLES)
    output.prepare(())
    clusters = labelled(look(inputs).found)
    try:
        SparkTables(spark).write(clusters, output, RunOptions())
        output.put_in_place(clusters)
    finally:
        output.clean_up()

    replay(inputs, tmp_path / "local", LOCAL)

    for table in TABLES:
        for cluster in clusters:
            found = _rows(tmp_path / "spark", table, cluster)
            assert found == _rows(tmp_path / "local", table, cluster), (table.name, cluster)


def _rows(folder: Path, table: Table, cluster: str) -> list[dict[str, object]]:
    """Return the rows of a table; those of equal keys may be in any order."""
    files = sorted((folder / table.folder(cluster)).glob("*.parquet"))
    read = [pq.ParquetFile(file).read() for file in files]
    wanted = [(field.name, field.type) for field in table.schema]
    assert all([(field.name, field.type) for field in each.schema] == wanted for each in read)
    return sorted(pa.concat_tables(each.cast(table.schema) for each in read).to_pylist(), key=repr)
