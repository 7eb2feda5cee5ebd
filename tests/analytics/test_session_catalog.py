"""Tables of a replay are in the catalog of the session, as they are in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.engines import LOCAL
from analytics.errors import ReplayInputError
from analytics.job.command import replay
from analytics.job.session_catalog import save_tables
from analytics.tables.catalog import TABLES
from tests.analytics.commands import replay_command as main
from tests.analytics.shared import FIXTURES

LOG = FIXTURES / "4.3.1-disks" / "controller"


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE DATABASE kraft LOCATION '{(tmp_path / 'warehouse').as_uri()}'")
    yield "spark_catalog.kraft"
    spark.sql("DROP DATABASE kraft CASCADE")


@pytest.mark.spark
def test_each_table_replaces_the_one_of_the_run_before(
    spark: SparkSession, catalog: str, tmp_path: Path
) -> None:
    wanted = [table for table in TABLES if table.name in ("outages", "acls", "brokers")]
    folders = replay([f"one={LOG}", f"two={LOG}"], tmp_path / "out", LOCAL).tables

    for _ in range(2):
        save_tables(spark, wanted, folders, catalog)

    outages = spark.table(f"{catalog}.outages")
    counts = {row["cluster"]: row["count"] for row in outages.groupBy("cluster").count().collect()}
    assert set(counts) == {"one", "two"}
    assert len(set(counts.values())) == 1
    for table in wanted:
        columns = set(spark.table(f"{catalog}.{table.name}").columns)
        assert columns == {"cluster", *table.schema.names}


@pytest.mark.spark
def test_a_catalog_that_is_not_there_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    folders = replay(LOG, tmp_path / "out", LOCAL).tables

    with pytest.raises(ReplayInputError, match=r"--catalog nowhere\.kraft: "):
        save_tables(spark, TABLES, folders, "nowhere.kraft")


def test_the_local_engine_has_no_catalogs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--input", str(LOG), "--results", str(tmp_path), "--engine", LOCAL]

    assert main([*given, "--catalog", "lake.kraft"]) == 2
    assert "--catalog is for --engine spark" in capsys.readouterr().err
