"""A figure: one query on the tables, and the rows that it gives.

A figure is SQL as DuckDB understands it. A page shows the query beside the figure, so that a reader
can ask the tables again and get the same. A query that would count the rows of a large table reads
a table of counts instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from analytics.page.columns import columns
from analytics.store.questions import Questions, Readable
from analytics.tables.names_in_sql import columns_in, names_in
from jbodlab.pages.plots import Plot
from jbodlab.pages.values import Column, Unit, Value


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One query on the tables.

    `sql` orders its rows completely, so that `limit` always keeps the same ones. It is empty where
    a figure is made of those of several clusters.
    """

    name: str
    title: str
    sql: str
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of columns, where they differ from those that a name has elsewhere."""
    limit: int | None = None
    plots: tuple[Plot, ...] = ()
    note: str = ""
    """A sentence above the table."""
    is_open: bool = False
    """Whether the table is unfolded from the begin."""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the query, with their titles and units."""
        return columns(columns_in(self.sql), self.titles)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that are asked, in the order of their first use."""
        return names_in(self.sql)

    @property
    def query(self) -> str:
        """The query for the rows that are shown."""
        return self.sql if self.limit is None else f"{self.sql}\nLIMIT {self.limit}"

    @property
    def count_query(self) -> str:
        """The query for the number of rows that there are without the limit."""
        return f"SELECT count(*) AS all_rows FROM (\n{self.sql}\n)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a figure, and how many there are without its limit."""

    figure: Figure
    rows: tuple[tuple[Value, ...], ...]
    total: int

    def values(self, column: str) -> list[Value]:
        """Return the values of a column, row by row."""
        at = [column.name for column in self.figure.columns].index(column)
        return [row[at] for row in self.rows]


def ask_all(figures: Sequence[Figure], tables: Readable) -> dict[str, Answer]:
    """Run several figures; returns the answers by name, in their order."""
    with Questions(tables) as questions:
        return {figure.name: _ask(figure, questions) for figure in figures}


def _ask(figure: Figure, questions: Questions) -> Answer:
    values = ", ".join(_carried(column) for column in figure.columns)
    rows = questions.rows(f"SELECT {values} FROM (\n{figure.query}\n)")
    total = len(rows)
    if total == figure.limit:  # only then there may be more
        ((total,),) = questions.rows(figure.count_query)
    return Answer(figure=figure, rows=tuple(rows), total=total)


def _carried(column: Column) -> str:
    name = f'"{column.name}"'
    match column.unit:
        case Unit.TIME:
            return f"epoch_ms({name})"
        case Unit.DAY:
            return f"CAST({name} AS STRING)"
        case Unit.SHARE | Unit.DEVIATION:
            return f"CAST({name} AS DOUBLE)"
        case _:
            return name
