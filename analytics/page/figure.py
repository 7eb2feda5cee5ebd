"""A figure: one query on the tables, and the rows that it gives.

A figure is SQL as DuckDB understands it. A page shows the query beside the figure, so that a reader
can ask the tables again and get the same. A query that would count the rows of a large table reads
a table of counts instead.
A replay asks it once for many clusters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from string import Template
from typing import Any

from analytics.page.columns import columns
from analytics.store.questions import Questions, Words
from analytics.tables.names_in_sql import columns_in, keyed, names_in
from analytics.tables.table import CLUSTER
from jbodlab.pages.plots import Plot
from jbodlab.pages.values import Column, Unit, Value


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One query on the tables.

    `sql` orders its rows completely, so that `limit` always keeps the same ones. In it `$word`
    stands for what is only known of a log (`LogSpan.words`).
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a figure, and how many there are without its limit."""

    figure: Figure
    rows: tuple[tuple[Value, ...], ...]
    total: int
    sql: str = ""
    """That of the figure for this log."""

    @property
    def query(self) -> str:
        """The query for the rows that are shown."""
        limit = self.figure.limit
        return self.sql if limit is None else f"{self.sql}\nLIMIT {limit}"

    @property
    def count_query(self) -> str:
        """The query for the number of rows that there are without the limit."""
        return f"SELECT count(*) AS all_rows FROM (\n{self.sql}\n)"

    def values(self, column: str) -> list[Value]:
        """Return the values of a column, row by row."""
        at = [column.name for column in self.figure.columns].index(column)
        return [row[at] for row in self.rows]


Answers = dict[str, Answer]
"""By the names of figures."""


def ask_all(figures: Sequence[Figure], questions: Questions, words: Words) -> dict[str, Answers]:
    """Run several figures, each once for some clusters; returns the answers by cluster."""
    answers: dict[str, Answers] = {cluster: {} for cluster in words}
    for figure in figures:
        asked = groupby(_ask(figure, questions, words), itemgetter(0))
        found = {cluster: list(rows) for cluster, rows in asked}
        for cluster, own in words.items():
            rows = found.get(cluster, [])
            answers[cluster][figure.name] = Answer(
                figure=figure,
                rows=tuple(row[2:] for row in rows),
                total=rows[0][1] if rows else 0,
                sql=Template(figure.sql).substitute(own),
            )
    return answers


def _ask(figure: Figure, questions: Questions, words: Words) -> list[tuple[Any, ...]]:
    """Return rows, in order: the cluster, how many it has without the limit, the values."""
    sql, order = keyed(figure.sql)
    keys = ", ".join((CLUSTER, *order))
    columns = ", ".join(map(_carried, figure.columns))
    rest = f"ORDER BY {keys}"
    if figure.limit is not None:
        number = f"row_number() OVER (PARTITION BY {CLUSTER} {rest})"
        rest = f"QUALIFY {number} <= {figure.limit} {rest}"
    columns = f"{CLUSTER}, count(*) OVER (PARTITION BY {CLUSTER}), {columns}"
    return questions.rows_of_each(words, sql, columns, rest)


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
