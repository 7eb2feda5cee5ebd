"""Scenes that several tests look at, made once by the fixtures of `conftest.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.page.figure import Answer, Figure, ask_all
from analytics.page.log_span import LogSpan
from analytics.page.report_figures import Figures, ask_figures
from analytics.page.sections import FIGURES
from analytics.store.questions import Questions
from analytics.store.store import Store
from analytics.store.stored_tables import StoredTables
from tests.analytics.page_tables import ONE, Row, write_tables

NO_TIME = LogSpan(first_ms=None, last_ms=None, end_ms=None)
FIXTURES = Path(__file__).parent.parent / "fixtures" / "kafka-metadata-logs"


class Replayed(NamedTuple):
    """A log of Apache Kafka, and what its replay left; nothing may be written there."""

    folder: Path
    """Of the fixture: the log, and what Kafka's own tools said of it."""
    output: Path
    printed: str
    """The report; the command prints more below it."""


class Made(NamedTuple):
    """Tables that the page of some tables is made of."""

    folder: Path
    tables: StoredTables
    figures: Figures


def made(folder: Path, **rows: list[Row]) -> Made:
    """Write tables, and ask them for the figures."""
    tables = frames(folder, **rows)
    return Made(folder, tables, ask_figures(tables, [ONE])[ONE])


def asked(
    tables: StoredTables, *names: str, span: LogSpan = NO_TIME, objective: float | None = None
) -> dict[str, Answer]:
    """Ask tables for some figures of their one cluster."""
    with Questions(tables.dataset) as questions:
        words = {ONE: span.words(objective)}
        return ask_all([figure(name) for name in names], questions, words)[ONE]


def figure(name: str) -> Figure:
    """Return a figure of the report."""
    return next(one for one in FIGURES if one.name == name)


def frames(folder: Path, **rows: list[Row]) -> StoredTables:
    """Write tables, and read them as a replay does: each when it is asked for."""
    write_tables(folder, **rows)
    return StoredTables(Store(str(folder)), [ONE])


def read_table(output: Path, table: str) -> list[Row]:
    """Read a written table of one cluster without Spark."""
    rows = pq.read_table(output / table)
    assert rows.column_names[-1] == "cluster"
    return list(rows.drop_columns("cluster").to_pylist())


def journal(folder: Path, what: str) -> list[dict[str, Any]]:
    """Return what was done to the disks of a fixture: break, heal or move."""
    lines = (folder / "journal.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["what"] == what]


def directory_ids(folder: Path) -> dict[tuple[int, str], str]:
    """Return the ids of the directories of a fixture, by broker and name."""
    rows = json.loads((folder / "directories.json").read_text())
    return {(row["broker"], Path(row["path"]).name): row["directory"] for row in rows}


def contents(folder: Path) -> dict[Path, object]:
    """Return what tells whether anything below a folder was changed."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}
