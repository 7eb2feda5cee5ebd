"""The files of `analytics/tables`: a head, and one SELECT in Spark SQL.

A head is a comment: what a row is, `order by:`, and a line for each column, `name (type): meaning`.
One that begins with `-- Step:` is of a step, a view that other files use and nobody else; with
`-- Step (kept):` its rows are computed once. The names behind FROM and JOIN are needed first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain
from types import MappingProxyType

from analytics.tables.names_in_sql import names_in
from analytics.tables.table import CLUSTER, Table, columns

CALLS: Mapping[str, str] = MappingProxyType(
    {
        "partition_steps": "partition_records",
        "rare_history": "rare_records",
        "kind_losses": "distinct_kinds",
    }
)
"""Views that functions from Arrow to Arrow make, and the step that each is made of."""

_SUFFIX = ".sql"
_STEP, _KEPT = "Step:", "Step (kept):"
_ORDER = "order by:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFile:
    """One file.

    Attributes:
        name: Of the table or step.
        head: Meaning of a row.
        sql: The SELECT.
        is_kept: Whether a step is computed once, and not by each that reads it.
        table: The table of users that it makes; None for a step.
    """

    name: str
    head: str
    sql: str
    is_kept: bool
    table: Table | None

    @property
    def reads(self) -> tuple[str, ...]:
        """Names behind FROM and JOIN."""
        return names_in(self.sql)

    @property
    def needs(self) -> tuple[str, ...]:
        """Steps to make first: those that it reads, or the input of a function among them."""
        return tuple(CALLS.get(name, name) for name in self.reads)


@cache
def sql_files() -> Mapping[str, SqlFile]:
    """Return the files by their names, each behind those that it reads."""
    folder = files(__package__)
    found = {
        each.name.removesuffix(_SUFFIX): each.read_text("utf-8")
        for each in folder.iterdir()
        if each.name.endswith(_SUFFIX)
    }
    return _in_order({name: parse(name, text) for name, text in sorted(found.items())})


def parse(name: str, text: str) -> SqlFile:
    """Return a file from its text."""
    lines = text.splitlines()
    size = next((at for at, line in enumerate(lines) if not line.startswith("--")), len(lines))
    comment = "\n".join(line.removeprefix("--").removeprefix(" ") for line in lines[:size])
    sql = "\n".join(lines[size:])
    for mark in (_STEP, _KEPT):
        if comment.startswith(mark):
            head = " ".join(comment.removeprefix(mark).split())
            return SqlFile(name=name, head=head, sql=sql, is_kept=mark == _KEPT, table=None)
    row, order, body, *_ = comment.split("\n\n")  # remarks may follow
    keys = order.removeprefix(_ORDER).replace(",", " ").split()
    row = " ".join(row.split())
    declared = columns(body)
    assert keys[0] == declared[0].name == CLUSTER, f"{name}: the first column is {CLUSTER}"
    table = Table(
        name=name,
        row=row[0].lower() + row[1:].removesuffix("."),
        columns=declared[1:],
        order=tuple(keys[1:]),
    )
    return SqlFile(name=name, head=row, sql=sql, is_kept=False, table=table)


def needed(names: Iterable[str]) -> list[SqlFile]:
    """Return some files and all that they need, each behind those that it reads."""
    known = sql_files()
    wanted = set(names)
    for file in reversed(list(known.values())):
        if file.name in wanted:
            wanted.update(file.needs)
    return [file for file in known.values() if file.name in wanted]


@cache
def times_read() -> Counter[str]:
    """Return how many files read each name that is read."""
    return Counter(chain.from_iterable(file.reads for file in sql_files().values()))


def _in_order(given: Mapping[str, SqlFile]) -> Mapping[str, SqlFile]:
    placed: dict[str, SqlFile] = {}

    def place(name: str, above: tuple[str, ...]) -> None:
        if name in placed or name not in given:
            return
        assert name not in above, f"{' -> '.join((*above, name))}: a table needs itself"
        for each in given[name].needs:
            place(each, (*above, name))
        placed[name] = given[name]

    for name in given:
        place(name, ())
    return placed
