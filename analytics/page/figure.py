"""What a figure is: one query on the tables, the meaning of its columns, and the rows it gives.

A figure is SQL as Spark understands it, with the names of tables in braces. Whoever shows a figure
shows the query beside it, so that everybody can ask the tables again and get the same. What would
count the rows of a large table asks a table of counts instead.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

QUERIES_AT_ONCE = 4
"""Each is one or two small Spark jobs; a second one fills the gaps of the first."""

Tables = Mapping[str, DataFrame]
Value = str | int | float | None


class Unit(Enum):
    """What the values of a column are, and how they are carried.

    Times are milliseconds since 1970, durations milliseconds, shares are 0 to 1, days ISO dates.
    """

    TEXT = "text"
    ID = "id"
    NUMBER = "number"
    """A count of something."""
    LABEL = "label"
    """A number that names something: a broker, an epoch, an offset."""
    TIME = "time"
    DURATION = "duration"
    SHARE = "share"
    DEVIATION = "deviation"
    DAY = "day"


Line = tuple[str, str, Unit]
"""Name, title and unit of a column."""

LINES = 20
"""Rows of a figure that begins with the worst."""
POINTS = 2000
"""Rows of a figure over time."""
PARTITION: tuple[Line, ...] = (
    ("topic", "Topic", Unit.TEXT),
    ("partition", "Partition", Unit.LABEL),
)
_BROKER: Line = ("broker", "Broker", Unit.LABEL)
PLACES: Mapping[str, tuple[Line, ...]] = {
    "broker": (_BROKER,),
    "directory": (_BROKER, ("directory", "Directory", Unit.ID)),
}
"""What names a broker, and a directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureColumn:
    """One column of a figure; `title` is what a reader sees."""

    name: str
    title: str
    unit: Unit


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One query on the tables.

    `sql` orders its rows completely, so that `limit` always keeps the same ones.
    """

    name: str
    title: str
    sql: str
    columns: tuple[FigureColumn, ...]
    limit: int | None = None

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that are asked, in the order of their first use."""
        return names_in(self.sql)

    @property
    def query(self) -> str:
        """The query with plain names of tables."""
        return self._plain(self._limited)

    @property
    def count_query(self) -> str:
        """The query for the number of rows that there are without the limit."""
        return self._plain(self._count)

    @property
    def _limited(self) -> str:
        return self.sql if self.limit is None else f"{self.sql}\nLIMIT {self.limit}"

    @property
    def _count(self) -> str:
        return f"SELECT count(*) AS all_rows FROM (\n{self.sql}\n)"

    def _plain(self, sql: str) -> str:
        return sql.format_map({name: name for name in self.tables})

    def ask(self, tables: Tables) -> Answer:
        """Run the query, and the one for the number of rows where the limit may hide some."""
        frame = run_sql(self._limited, tables)
        names = [column.name for column in self.columns]
        assert frame.columns == names, f"{self.name}: {frame.columns} are not {names}"
        found = frame.select([_carried(column) for column in self.columns]).collect()
        rows = tuple(tuple(row) for row in found)
        total = len(rows)
        if self.limit is not None and total == self.limit:
            total = run_sql(self._count, tables).collect()[0][0]
        return Answer(figure=self, rows=rows, total=total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a figure, and how many there are without its limit."""

    figure: Figure
    rows: tuple[tuple[Value, ...], ...]
    total: int

    @property
    def more(self) -> int:
        """Rows that the limit hides."""
        return self.total - len(self.rows)

    def values(self, column: str) -> list[Value]:
        """Return the values of a column, row by row."""
        at = [column.name for column in self.figure.columns].index(column)
        return [row[at] for row in self.rows]


def ask_all(figures: Sequence[Figure], tables: Tables) -> dict[str, Answer]:
    """Run several figures, a few at a time; returns them by name, in their order."""
    asked = {name: tables[name] for figure in figures for name in figure.tables}
    with ThreadPoolExecutor(QUERIES_AT_ONCE) as pool:
        jobs = [pool.submit(figure.ask, asked) for figure in figures]
        answers = [job.result() for job in jobs]
    return {answer.figure.name: answer for answer in answers}


def run_sql(sql: str, tables: Tables) -> DataFrame:
    """Return what a query gives; tables stand in it by their names in braces."""
    # Spark's own formatting of a query gives frames names for the time of the call only.
    frames: dict[str, Any] = {name: tables[name] for name in names_in(sql)}
    spark: SparkSession = next(iter(frames.values())).sparkSession
    return spark.sql(sql, **frames)


def names_in(sql: str) -> tuple[str, ...]:
    """Return the names in braces, in the order of their first use."""
    fields = (field for _, field, _, _ in string.Formatter().parse(sql) if field)
    return tuple(dict.fromkeys(fields))


def figure_columns(lines: Sequence[Line]) -> tuple[FigureColumn, ...]:
    """Return columns from lines of name, title and unit."""
    return tuple(FigureColumn(name=name, title=title, unit=unit) for name, title, unit in lines)


def names_of(lines: Sequence[Line]) -> str:
    """Return the names of such lines as they stand in a query."""
    return ", ".join(name for name, _, _ in lines)


def _carried(column: FigureColumn) -> Column:
    # A time of Spark becomes a local time of this process when it is collected; a number does not.
    match column.unit:
        case Unit.TIME:
            return F.unix_millis(column.name).alias(column.name)
        case Unit.DAY:
            return F.col(column.name).cast("string").alias(column.name)
        case Unit.SHARE | Unit.DEVIATION:
            return F.col(column.name).cast("double").alias(column.name)
        case _:
            return F.col(column.name)
