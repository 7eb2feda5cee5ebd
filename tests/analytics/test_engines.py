"""Spark makes the tables that the local engine makes, of one cluster and of several."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.engines import LOCAL
from analytics.engines.functions import ArrowFunction
from analytics.engines.spark import FEW_ROWS, SparkEngine, write_of_many
from analytics.errors import ReplayInputError
from analytics.job.command import replay
from analytics.job.spark_tables import SparkTables
from analytics.store.store import Store
from analytics.tables.catalog import TABLES
from analytics.tables.table import declare
from bench.compare_tables import compare
from bench.metadata_log_generator import generate
from tests.analytics.history_logs import random_topics, write
from tests.analytics.random_records import random_log
from tests.analytics.shared import FIXTURES
from tests.analytics.small_logs import answered_by_spark

pytestmark = pytest.mark.spark


def cut_snapshot_log(folder: Path) -> None:
    random_log(folder, seed=12, steps=120, snapshot_every=50)
    snapshot = max(folder.rglob("*.checkpoint"))
    snapshot.write_bytes(snapshot.read_bytes()[:-7])


def odd_log(seed: int, folder: Path) -> None:
    folder.mkdir()
    write(random_topics(seed, 0.05 * (seed % 3), 40), folder)


LOGS: dict[str, Callable[[Path], object]] = {
    **{
        f"{version}-{node}": partial(shutil.copytree, FIXTURES / version / node)
        for version in ("3.9.2-admin", "4.3.1-disks")
        for node in ("controller", "broker-1")
    },
    "random": partial(random_log, seed=12, steps=120, snapshot_every=50),
    "cut-snapshot": cut_snapshot_log,
    "generated": partial(generate, records=20_000),
    **{f"odd-{seed}": partial(odd_log, seed) for seed in range(3)},
}


NOW = ("3.9.2-admin-controller", "4.3.1-disks-broker-1", "cut-snapshot", "odd-2")


class Here(NamedTuple):
    """Some of the logs, replayed by this process."""

    inputs: dict[str, str]
    output: Path
    report: str


@pytest.fixture(scope="module", params=[NOW, pytest.param(LOGS, marks=pytest.mark.soak)])
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Here:
    root = tmp_path_factory.mktemp("logs")
    for name in request.param:
        LOGS[name](root / name)
    inputs = {name: f"{name}={root / name}" for name in request.param}
    made = replay([*inputs.values()], root / "local", LOCAL)
    return Here(inputs, root / "local", made.report)


def test_spark_makes_the_tables_that_this_process_makes(
    spark: SparkSession, here: Here, tmp_path: Path
) -> None:
    assert_equal_tables(here, spark, tmp_path)


def test_tables_of_many_clusters_and_many_rows_are_one_plan_each(
    spark: SparkSession, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics.job.spark_tables.FEW_ROWS_BYTES", 0)
    monkeypatch.setattr("analytics.engines.spark.FEW_BYTES", 0)
    # The files of a table are written by tasks then, however few its rows are.
    for module in ("engines.spark", "job.spark_tables"):
        monkeypatch.setattr(f"analytics.{module}.FEW_CLUSTERS", 1)
    before = len(plans(spark))

    assert_equal_tables(here, spark, tmp_path)

    # As Spark's page shows them: the name of what is made, and the columns of the dictionary.
    written = "InsertIntoHadoopFsRelationCommand"
    found = [pair for pair in plans(spark)[before:] if written in pair[1]]
    names = Counter(description.partition(":")[0] for description, _ in found)
    for table in TABLES:
        assert names[table.name] == 1, table.name
    (plan,) = [plan for description, plan in found if description.startswith("leadership:")]
    assert {"leader_epoch", "previous_leader", "valid_from_offset"} <= set(re.findall(r"\w+", plan))


def test_a_store_that_a_cluster_of_spark_does_not_know_is_refused_in_one_sentence(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    master = SimpleNamespace(get=lambda _: "spark://host:7077")
    on_cluster = SimpleNamespace(version="", conf=master, sparkContext=spark.sparkContext)

    with pytest.raises(ReplayInputError, match="give the session the library of that store"):
        SparkTables(on_cluster)._folder(Store("s3a://bucket/out"), ExitStack())  # type: ignore[arg-type]


def test_only_few_rows_are_read_back_into_the_plans(spark: SparkSession, tmp_path: Path) -> None:
    engine = SparkEngine(spark, Store(str(tmp_path)), clusters=["one"], settings={})

    engine.keep("few", engine.spark.range(FEW_ROWS))
    engine.keep("many", engine.spark.range(FEW_ROWS + 1))

    # Rows of files are a view, others become one where they are read.
    assert engine.spark.catalog.tableExists("many")
    assert not engine.spark.catalog.tableExists("few")


def test_each_character_of_a_folders_name_stands_for_itself(
    spark: SparkSession, tmp_path: Path
) -> None:
    engine = SparkEngine(spark, Store(f"{tmp_path}/a b=ü%20[1]"), clusters=["one"], settings={})

    engine.keep("many", engine.spark.range(FEW_ROWS + 1))

    assert [each.name for each in tmp_path.iterdir()] == ["a b=ü%20[1]"]
    assert engine.spark.table("many").count() == FEW_ROWS + 1


def test_rows_of_one_cluster_are_written_in_the_order_of_their_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    engine = SparkEngine(spark, Store(str(tmp_path)), clusters=["one"], settings={})
    table = declare("moments: one moment. order by at\n\nat (long): when")

    rows = engine.spark.sql("SELECT 'one' AS cluster, explode(array(3, 1, 2)) AS at")
    engine._write(table, rows.coalesce(1))

    (file,) = tmp_path.glob("moments/cluster=one/*.parquet")
    assert pq.ParquetFile(file).read().column("at").to_pylist() == [1, 2, 3]


def test_files_have_dictionaries_and_statistics_only_where_they_are_of_use(
    spark: SparkSession, tmp_path: Path
) -> None:
    engine = SparkEngine(spark, Store(str(tmp_path)), clusters=["one"], settings={})

    columns = "id AS offset, timestamp_micros(id) AS time, 'x' AS topic, 'x' AS payload, 'x' file"
    engine.keep("rows", engine.spark.range(100).selectExpr(*columns.split(", ")))

    file = next((tmp_path / "_steps/rows").glob("*.parquet"))
    group = pq.ParquetFile(file).metadata.row_group(0)
    found = {group.column(at).path_in_schema: group.column(at) for at in range(5)}
    assert [name for name, one in found.items() if one.has_dictionary_page] == ["topic", "file"]
    assert [name for name, one in found.items() if one.is_stats_set] == ["offset", "time", "topic"]


def test_few_rows_are_not_shuffled(spark: SparkSession) -> None:
    before = len(plans(spark))

    answered_by_spark(
        spark,
        "controller_changes",
        record_counts=[{"epoch": 1}],
        controller_epochs=[{"epoch": 1}, {"epoch": 2}],
    )

    (plan,) = [plan for _, plan in plans(spark)[before:] if "Window" in plan]
    assert "Aggregate" in plan
    assert "Join" in plan
    assert "Exchange" not in plan


def test_each_attempt_of_a_task_writes_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    rows = pa.table({"numbers": [[1, 2], []]})
    function = ArrowFunction(reads="given", keys=(), call=lambda given: given, schema=rows.schema)

    attempts = [
        next(write_of_many(function, str(tmp_path), "steps", iter(rows.to_batches())))
        for _ in range(2)
    ]

    files = [attempt.column("file")[0].as_py() for attempt in attempts]
    assert len(set(files)) == len(files)
    assert all(pq.read_table(tmp_path / file) == rows for file in files)


def plans(spark: SparkSession) -> list[tuple[str, str]]:
    """Return the descriptions and the plans of what the session was asked."""
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    executions = store.executionsList()
    found = (executions.apply(at) for at in range(executions.size()))
    return [(each.description(), each.physicalPlanDescription()) for each in found]


def assert_equal_tables(here: Here, spark: SparkSession, output: Path) -> None:
    by_spark = replay([*here.inputs.values()], output, SparkTables(spark))

    assert by_spark.report == here.report
    assert compare(here.output, output) == []
    for table in TABLES:
        wanted = [(field.name, field.type) for field in table.schema]
        for file in (output / table.name).rglob("*.parquet"):
            assert [(field.name, field.type) for field in pq.read_schema(file)] == wanted
