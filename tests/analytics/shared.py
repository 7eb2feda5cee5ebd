"""Scenes that several tests look at, made once by the fixtures of `conftest.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.page.figure import Figure, ask_all
from analytics.page.log_span import LogSpan, log_span
from analytics.page.report_figures import Figures, ask_figures
from analytics.page.sections import NO_TIME, figures_of
from analytics.store.stored_tables import StoredTables
from tests.analytics.page_tables import ALL_TABLES, Row, write_tables

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
    return Made(folder, tables, ask_figures(tables))


def made_of_others(folder: Path, like: Made, **rows: list[Row]) -> Figures:
    """Write tables, and ask them for the figures that may differ from those of others.

    A figure is the same where its query and all its tables are.
    """
    tables = frames(folder, **rows)
    span = log_span(tables)
    same = {
        name
        for name in ALL_TABLES
        if pq.read_table(folder / name).equals(pq.read_table(like.folder / name))
    }
    known = {
        figure.name: like.figures.answers[figure.name]
        for figure in figures_of(span)
        if like.figures.answers[figure.name].figure == figure and same.issuperset(figure.tables)
    }
    assert known
    wanted = [figure for figure in figures_of(span) if figure.name not in known]
    found = known | ask_all(wanted, tables)
    return Figures(span=span, answers={name: found[name] for name in like.figures.answers})


def figure(name: str, span: LogSpan = NO_TIME, objective: float | None = None) -> Figure:
    """Return a figure of the report."""
    return next(one for one in figures_of(span, objective) if one.name == name)


def frames(folder: Path, **rows: list[Row]) -> StoredTables:
    """Write tables, and read them as a replay does: each when it is asked for."""
    write_tables(folder, **rows)
    return StoredTables(ALL_TABLES.values(), lambda table: str(folder / table.name))


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
