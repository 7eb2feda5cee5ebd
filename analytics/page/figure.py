"""What a figure is: one query on the tables, the meaning of its columns, and the rows it gives.

A figure is SQL as Spark understands it, with the names of tables in braces. Whoever shows a figure
shows the query beside it, so that everybody can ask the tables again and get the same. What would
count the rows of a large table asks a table of counts instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial

from pyspark.sql import DataFrame, Row

from analytics.tables.frames import names_in, run_sql

PLANS_AT_ONCE = 2
"""Spark makes a plan on one core; what there is to plan is shared out, each share costs a job."""

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

    `sql` orders its rows completely, so that `limit` always keeps the same ones. It is empty where
    a figure is made of those of several clusters.
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
        return self._plain(self.limited)

    @property
    def count_query(self) -> str:
        """The query for the number of rows that there are without the limit."""
        return self._plain(self.count)

    @property
    def limited(self) -> str:
        """The query with the names of tables in braces."""
        return self.sql if self.limit is None else f"{self.sql}\nLIMIT {self.limit}"

    @property
    def count(self) -> str:
        """The query for the number of rows, with the names of tables in braces."""
        return f"SELECT count(*) AS all_rows FROM (\n{self.sql}\n)"

    def _plain(self, sql: str) -> str:
        return sql.format_map({name: name for name in self.tables})


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


_COUNT = (FigureColumn(name="all_rows", title="Rows", unit=Unit.NUMBER),)


def ask_all(figures: Sequence[Figure], tables: Tables) -> dict[str, Answer]:
    """Run several figures; returns the answers by name, in their order.

    To plan a small query takes Spark far longer than to run it, and part of that is the same
    whatever the query is. So figures are asked together, as parts of a few large queries.
    """
    found = _ask([(figure.limited, figure.columns) for figure in figures], tables)
    # Only where as many rows came as may come, there may be more.
    full = [
        figure for figure, rows in zip(figures, found, strict=True) if len(rows) == figure.limit
    ]
    counted = _ask([(figure.count, _COUNT) for figure in full], tables)
    totals: dict[str, int] = {}
    for figure, ((count,),) in zip(full, counted, strict=True):
        assert isinstance(count, int)
        totals[figure.name] = count
    return {
        figure.name: Answer(figure=figure, rows=rows, total=totals.get(figure.name, len(rows)))
        for figure, rows in zip(figures, found, strict=True)
    }


def _ask(
    queries: Sequence[tuple[str, tuple[FigureColumn, ...]]], tables: Tables
) -> list[tuple[tuple[Value, ...], ...]]:
    """Return the rows of each query, as values of its columns."""
    asked = {name: tables[name] for sql, _ in queries for name in names_in(sql)}
    parts = [_as_text(at, sql, columns) for at, (sql, columns) in enumerate(queries)]
    shares = [share for at in range(PLANS_AT_ONCE) if (share := parts[at::PLANS_AT_ONCE])]
    texts: list[list[str]] = [[] for _ in queries]
    with ThreadPoolExecutor(PLANS_AT_ONCE) as pool:
        # Rows of a union come part by part, those of a part in its order.
        for rows in pool.map(partial(_collect, tables=asked), shares):
            for at, text in rows:
                texts[at].append(text)
    return [
        tuple(_values(text, columns) for text in own)
        for own, (_, columns) in zip(texts, queries, strict=True)
    ]


def _collect(parts: Sequence[str], tables: Tables) -> list[Row]:
    # One task for what is left of each part: every task gets the plans of all parts.
    return run_sql("\nUNION ALL\n".join(parts), tables).coalesce(1).collect()


def _as_text(number: int, sql: str, columns: Sequence[FigureColumn]) -> str:
    """Return a query whose rows can stand below those of others: a number and a text each."""
    values = ", ".join(f"{_carried(column)} AS `{column.name}`" for column in columns)
    return f"SELECT {number} AS query, to_json(struct({values})) AS row FROM (\n{sql}\n)"


def _values(text: str, columns: Sequence[FigureColumn]) -> tuple[Value, ...]:
    # What is null has no member.
    found = json.loads(text)
    return tuple(found.get(column.name) for column in columns)


def figure_columns(lines: Sequence[Line]) -> tuple[FigureColumn, ...]:
    """Return columns from lines of name, title and unit."""
    return tuple(FigureColumn(name=name, title=title, unit=unit) for name, title, unit in lines)


def names_of(lines: Sequence[Line]) -> str:
    """Return the names of such lines as they stand in a query."""
    return ", ".join(name for name, _, _ in lines)


def _carried(column: FigureColumn) -> str:
    name = f"`{column.name}`"
    match column.unit:
        case Unit.TIME:
            return f"unix_millis({name})"
        case Unit.DAY:
            return f"CAST({name} AS STRING)"
        case Unit.SHARE | Unit.DEVIATION:
            return f"CAST({name} AS DOUBLE)"
        case _:
            return name
