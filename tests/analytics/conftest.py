"""What all tests of the replay share: one Spark session, and one replay of each log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from analytics.job.command import replay
from analytics.job.session import start_session
from tests.analytics.page_tables import some_of_everything
from tests.analytics.shared import FIXTURES, Made, Replayed, contents, made

Rows = list[dict[str, object]]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give all tests with Spark to one worker, where there are several: a second session costs."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One quiet local session for all tests."""
    session = start_session(0)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_logs() -> Path:
    """Metadata logs that Apache Kafka wrote."""
    return FIXTURES


@pytest.fixture(scope="session")
def replayed(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Replayed]]:
    """Replay a log of Apache Kafka once for all tests: (its name, options) -> `Replayed`."""
    done: dict[object, tuple[Replayed, object]] = {}

    def of(name: str, **options: object) -> Replayed:
        key = (name, *sorted(options.items()))
        if key not in done:
            output = tmp_path_factory.mktemp("replayed") / name
            log = FIXTURES / name / "controller"
            result = replay(log, output, spark, **options)  # type: ignore[arg-type]
            done[key] = Replayed(FIXTURES / name, output, result.report), contents(output)
        return done[key][0]

    yield of
    for found, left in done.values():
        assert contents(found.output) == left, f"a test has changed {found.output}"


@pytest.fixture(scope="session")
def everything(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The figures of tables with one of everything."""
    return made(spark, tmp_path_factory.mktemp("everything"), **some_of_everything())


@pytest.fixture(scope="session")
def nothing(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The figures of empty tables."""
    return made(spark, tmp_path_factory.mktemp("nothing"))


@pytest.fixture(scope="session")
def read_table() -> Callable[[Path, str], Rows]:
    """Read a written table of one cluster without Spark: (output directory, table) -> rows."""

    def read(output: Path, table: str) -> Rows:
        rows = pyarrow.parquet.read_table(output / table)
        assert rows.column_names[0] == "cluster"
        return rows.drop_columns("cluster").to_pylist()

    return read
