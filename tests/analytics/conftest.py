from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from analytics.session import start_session

FIXTURES = Path(__file__).parent.parent / "fixtures" / "kafka-metadata-logs"
Rows = list[dict[str, object]]


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
def read_table() -> Callable[[Path, str], Rows]:
    """Read a written table without Spark: (output directory, table) -> rows."""

    def read(output: Path, table: str) -> Rows:
        return pyarrow.parquet.read_table(output / table).to_pylist()

    return read
