"""Scenes that several tests look at, made once by the fixtures of `conftest.py`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from analytics.page.report_figures import Figures, ask_figures
from analytics.store.table_files import read_table
from tests.analytics.page_tables import ALL_TABLES, Row, write_tables

FIXTURES = Path(__file__).parent.parent / "fixtures" / "kafka-metadata-logs"


class Replayed(NamedTuple):
    """A log of Apache Kafka, and what its replay left; nothing may be written there."""

    folder: Path
    """Of the fixture: the log, and what Kafka's own tools said of it."""
    output: Path
    report: str


class Made(NamedTuple):
    """What the page of some tables is made of."""

    folder: Path
    tables: dict[str, DataFrame]
    figures: Figures


def made(spark: SparkSession, folder: Path, **rows: list[Row]) -> Made:
    """Write tables, and ask them for the figures."""
    tables = frames(spark, folder, **rows)
    return Made(folder, tables, ask_figures(tables))


def frames(spark: SparkSession, folder: Path, **rows: list[Row]) -> dict[str, DataFrame]:
    """Write tables, and read them as a replay does."""
    write_tables(folder, **rows)
    return {
        name: read_table(spark, table, str(folder / name)) for name, table in ALL_TABLES.items()
    }


def contents(folder: Path) -> object:
    """Return what tells whether anything below a folder was changed."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}
