"""The data source in Spark: what a user gets of `load`, with options, filters and a schema."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from analytics.errors import ReplayInputError
from analytics.read.layout import read_layout
from analytics.source.data_source import NAME
from tests.analytics.builders import START_MS, log_of_one_record
from tests.analytics.random_records import random_log
from tests.analytics.source_rows import column_rows

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of some hundred records in several segments, with snapshots."""
    return random_log(tmp_path_factory.mktemp("log"), 5, 120, snapshot_every=50).directory


def load(spark: SparkSession, *paths: Path | str, **options: object) -> DataFrame:
    texts = {name: str(value) for name, value in options.items()}
    reader = spark.read.format("kraft-metadata").options(**texts)
    return reader.load(list(map(str, paths)) if len(paths) > 1 else str(paths[0]))


def places(rows: Iterable[Any]) -> list[tuple[str, int]]:
    return sorted((row.file, row.offset) for row in rows)


def test_rows_are_those_that_are_read_without_spark(spark: SparkSession, history: Path) -> None:
    expected = column_rows(read_layout(history))

    rows = load(spark, history, splitBytes=5000).collect()

    one, other = (
        sorted((row.snapshot, row.file, row.offset, row.payload) for row in found)
        for found in (rows, expected)
    )
    assert one == other
    assert {row.source for row in rows} == {str(history)}


def test_a_session_that_nothing_was_registered_in_knows_the_source(
    spark: SparkSession, history: Path
) -> None:
    plain = spark.newSession()

    rows = plain.read.format("kraft-metadata").load(str(history))

    assert rows.where("not snapshot").count() > 100


def test_an_import_registers_the_source_in_a_session_that_runs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pyspark_kraft_metadata", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert importlib.import_module("pyspark_kraft_metadata").DefaultSource.name() == NAME

    monkeypatch.delitem(sys.modules, "pyspark_kraft_metadata")
    monkeypatch.delenv("PYSPARK_PYTHON")
    with pytest.raises(ReplayInputError, match="set PYSPARK_PYTHON to") as refused:
        importlib.import_module("pyspark_kraft_metadata")
    assert "\n" not in str(refused.value)


def test_several_directories_tell_their_rows_apart(spark: SparkSession, tmp_path: Path) -> None:
    one, two = (log_of_one_record(tmp_path / node) for node in ("node-1", "node-2"))
    (two / ("0" * 20 + ".log")).write_bytes(b"rubbish")

    for rows in (load(spark, tmp_path), load(spark, tmp_path / "node-1", tmp_path / "node-2")):
        found = rows.groupBy("source", "problem").count().collect()
        assert {(row["source"], row["problem"], row["count"]) for row in found} == {
            (str(one), None, 1),
            (str(two), "torn_tail", 1),
        }


def test_a_schema_chooses_columns(spark: SparkSession, history: Path) -> None:
    everything = load(spark, history).select("type", "offset").collect()

    rows = spark.read.schema("type string, offset long").format("kraft-metadata").load(str(history))

    assert sorted(map(str, rows.collect())) == sorted(map(str, everything))
    with pytest.raises(AnalysisException, match="no column colour"):
        spark.read.schema("colour string").format("kraft-metadata").load(str(history)).collect()


def test_bounds_and_payload_are_options(spark: SparkSession, history: Path) -> None:
    bounded = load(spark, history, startOffset=10, endOffset=40, payload="false", splitBytes=5000)

    rows = bounded.where("not snapshot").collect()

    assert sorted(row.offset for row in rows) == list(range(10, 40))
    assert {row.payload for row in rows} == {None}
    time = load(spark, history, startTime=START_MS + 3000, endTime="2023-11-14T22:13:25")
    assert {row.timestamp.timestamp() * 1000 for row in time.where("not snapshot").collect()} == {
        START_MS + 3000,
        START_MS + 4000,
    }


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_filters_give_the_same_rows_pushed_down_or_not(
    spark: SparkSession, history: Path, enabled: str
) -> None:
    everything = load(spark, history, splitBytes=5000).collect()
    spark.conf.set(PUSHDOWN, enabled)
    try:
        rows = load(spark, history, splitBytes=5000, pushFilters=enabled)
        chosen = rows.where("offset between 20 and 70 and type = 'PARTITION_CHANGE_RECORD'")
        recent = rows.where(F.col("timestamp") >= F.timestamp_millis(F.lit(START_MS + 30_000)))
        first, second = chosen.collect(), recent.where("type in ('NO_OP_RECORD')").collect()
    finally:
        spark.conf.unset(PUSHDOWN)

    changes = [row for row in everything if row.type == "PARTITION_CHANGE_RECORD"]
    assert places(first) == places(row for row in changes if 20 <= row.offset <= 70)
    no_ops = [row for row in everything if row.type == "NO_OP_RECORD"]
    begin_s = START_MS / 1000 + 30
    assert places(second) == places(row for row in no_ops if row.timestamp.timestamp() >= begin_s)


def test_a_path_without_a_log_is_said_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="holds no metadata log"):
        load(spark, tmp_path).collect()


def test_folders_with_commas_and_patterns_are_paths_of_load(
    spark: SparkSession, tmp_path: Path
) -> None:
    for node in ("a,b", "c"):
        log_of_one_record(tmp_path / node)

    assert load(spark, tmp_path / "a,b").count() == 1
    assert load(spark, tmp_path / "*").count() == 2
    assert load(spark, tmp_path / "a,b", tmp_path / "c*").count() == 2


def test_a_table_of_the_catalog_is_refused_with_what_to_write(
    spark: SparkSession, history: Path
) -> None:
    spark.sql(f"CREATE TABLE never USING `kraft-metadata` OPTIONS (path '{history}')")
    try:
        with pytest.raises(AnalysisException, match="Spark gives it no options") as refused:
            spark.sql("SELECT offset FROM never").collect()
    finally:
        spark.sql("DROP TABLE never")

    (said,) = [line for line in str(refused.value).splitlines() if ".ReplayInputError: " in line]
    view, table = said.partition(", or ")[2].split("; ")
    spark.sql(view.replace("PATH", str(history)))
    try:
        assert spark.sql(table.partition(" AS ")[2]).where("not snapshot").count() > 100
    finally:
        spark.catalog.dropTempView("V")
