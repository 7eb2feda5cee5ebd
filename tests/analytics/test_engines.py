"""Spark makes the tables that the local engine makes, of one cluster and of several."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.engines import LOCAL
from analytics.job.command import replay
from analytics.job.spark_tables import SparkTables
from analytics.tables.catalog import TABLES
from analytics.tables.table import Table
from bench.metadata_log_generator import generate
from tests.analytics.builders import LogBuilder, RandomHistory
from tests.analytics.shared import FIXTURES

pytestmark = pytest.mark.spark


def kafka_log(name: str, folder: Path) -> None:
    shutil.copytree(FIXTURES / name, folder)


def random_log(folder: Path) -> None:
    log = LogBuilder(folder, segment_bytes=8192)
    RandomHistory(log, seed=12).run(120, snapshot_every=50)
    log.close()


def generated_log(folder: Path) -> None:
    generate(folder, 20_000)


LOGS: dict[str, Callable[[Path], None]] = {
    **{
        f"{version}-{node}": partial(kafka_log, f"{version}/{node}")
        for version in ("3.9.2-admin", "4.3.1-disks")
        for node in ("controller", "broker-1")
    },
    "random": random_log,
    "generated": generated_log,
}


@pytest.mark.parametrize("are_few", [True, False], ids=["few-rows", "many-rows"])
def test_spark_makes_the_tables_that_this_process_makes(
    are_few: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = []
    for name, make in LOGS.items():
        make(tmp_path / name)
        inputs.append(f"{name}={tmp_path / name}")
    if not are_few:
        monkeypatch.setattr("analytics.job.spark_tables.SMALL_LOG_BYTES", 0)
        monkeypatch.setattr("analytics.engines.spark.FEW_BYTES", 0)

    by_spark = replay(inputs, tmp_path / "spark", SparkTables(spark))
    by_this = replay(inputs, tmp_path / "local", LOCAL)

    assert by_spark.report == by_this.report
    for table in TABLES:
        for cluster in LOGS:
            found = _rows(tmp_path / "spark", table, cluster)
            assert found == _rows(tmp_path / "local", table, cluster), (table.name, cluster)


def _rows(folder: Path, table: Table, cluster: str) -> list[dict[str, object]]:
    """Return the rows of a table; those of equal keys may be in any order."""
    files = sorted((folder / table.folder(cluster)).glob("*.parquet"))
    read = [pq.ParquetFile(file).read() for file in files]
    wanted = [(field.name, field.type) for field in table.schema]
    assert all([(field.name, field.type) for field in each.schema] == wanted for each in read)
    return sorted(pa.concat_tables(each.cast(table.schema) for each in read).to_pylist(), key=repr)
