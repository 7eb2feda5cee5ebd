"""Both engines give the same tables, row for row."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.engines import LOCAL
from analytics.errors import ReplayInputError
from analytics.job.command import replay
from analytics.job.local_runner import LocalRunner
from analytics.job.output import ClusterOutput
from analytics.job.runner import ROWS, Row, Runner, without_rows
from analytics.job.runner_tables import RunnerTables
from analytics.job.spark_runner import SmallSparkRunner, SparkRunner
from analytics.tables.catalog import TABLES
from bench.metadata_log_generator import generate
from tests.analytics.builders import LogBuilder, RandomHistory
from tests.analytics.shared import FIXTURES

pytestmark = pytest.mark.spark

BUCKETS = 3


@pytest.fixture
def runners(spark: SparkSession) -> dict[str, Runner]:
    of_any_log = SparkRunner(spark)
    return {"local": LocalRunner(), "spark": of_any_log, "small": SmallSparkRunner(of_any_log)}


@pytest.fixture(params=["local", "spark", "small"])
def runner(request: pytest.FixtureRequest, runners: dict[str, Runner]) -> Runner:
    return runners[request.param]


def numbers(count: int) -> Iterator[pa.RecordBatch]:
    """Yield a row for each number below another one, and return how many."""
    for number in range(count):
        row = {"bucket": number % BUCKETS, "first": -number, "blob": str(number).encode()}
        yield pa.RecordBatch.from_pylist([row], schema=ROWS)
    return count


def joined(bucket: int, rows: Iterator[Row]) -> tuple[int, bytes]:
    return bucket, b" ".join(row["blob"] for row in rows)


def test_rows_of_a_bucket_come_together_in_order(runner: Runner) -> None:
    more = pa.Table.from_pylist([{"bucket": 1, "first": 9, "blob": b"last"}], ROWS)

    with closing(runner.map(numbers, [7, 0, 2])) as mapped:
        found = runner.shuffle(mapped, more, BUCKETS, joined)

    assert mapped.answers == [7, 0, 2]
    assert sorted(found) == [(0, b"6 3 0 0"), (1, b"4 1 1 last"), (2, b"5 2")]


def test_without_items_the_rows_of_the_driver_are_shuffled(runner: Runner) -> None:
    with closing(runner.map(numbers, [])) as mapped:
        assert runner.shuffle(mapped, ROWS.empty_table(), BUCKETS, joined) == []


def refuse(item: str) -> str:
    raise ReplayInputError(f"{item} is unusable")


def test_what_makes_a_replay_impossible_reaches_the_caller(runner: Runner) -> None:
    with pytest.raises(ReplayInputError, match="it is unusable"):
        runner.map(without_rows(refuse), ["it"])


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


@pytest.mark.parametrize(
    ("log", "engine"), [*((log, "spark") for log in LOGS), ("random", "small")]
)
def test_spark_makes_the_tables_that_this_process_makes(
    log: str,
    engine: str,
    runners: dict[str, Runner],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    LOGS[log](tmp_path / "log")
    monkeypatch.setattr("analytics.job.run.BYTES_PER_BUCKET", 20_000)
    # What is computed again is written again, by a name that nobody accepts.
    written_again: list[str] = []
    remove_others = ClusterOutput.remove_others

    def note_others(output: ClusterOutput) -> None:
        for table in output.output.tables:
            names = output.scratch_store.names(table.folder(output.name))
            written_again.extend(set(names) - output.accepted[table.name])
        remove_others(output)

    monkeypatch.setattr(ClusterOutput, "remove_others", note_others)
    by_spark = replay(tmp_path / "log", tmp_path / "spark", RunnerTables(runners[engine]))
    by_this = replay(tmp_path / "log", tmp_path / "local", LOCAL)

    assert by_spark.report == by_this.report
    assert written_again == []
    for table in TABLES:
        found, expected = (
            pq.read_table(tmp_path / name / table.name) for name in ("spark", "local")
        )
        assert found.schema == expected.schema
        assert found.to_pylist() == expected.to_pylist(), table.name
