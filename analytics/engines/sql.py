"""The files of `analytics/tables`: a head, and one SELECT in Spark SQL.

A head is a comment: what a row is, `order by:`, and a line for each column, `name (type): meaning`.
One that begins with `-- Step:` is of a step, a view that other files use and nobody else; with
`-- Step (kept):` its rows are computed once. What stands behind FROM and JOIN says what is needed
first. SQLGlot translates a text for DuckDB; what it warns of is an error, since it then leaves
something out.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from analytics.engines.functions import FUNCTIONS
from analytics.tables.names_in_sql import names_in
from analytics.tables.table import CLUSTER, Table, columns

_SUFFIX = ".sql"
_STEP, _KEPT = "Step:", "Step (kept):"
_ORDER = "order by:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFile:
    """One file.

    Attributes:
        name: Of the table or step.
        head: What a row is.
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
        """What has to be made first: what it reads, or what a function makes that of."""
        return tuple(FUNCTIONS[name].reads if name in FUNCTIONS else name for name in self.reads)


@cache
def sql_files() -> Mapping[str, SqlFile]:
    """Return the files by their names, each behind those that it reads."""
    folder = files("analytics.tables")
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


def in_duckdb(text: str) -> str:
    """Return what DuckDB is asked instead of a text of Spark; remembered in the user's cache."""
    return _translated(text)


@cache
def _translated(text: str) -> str:
    path = _cache_folder() / f"{hashlib.sha256(text.encode()).hexdigest()}{_SUFFIX}"
    try:
        return path.read_text("utf-8")
    except OSError:
        found = translate(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(found)
        Path(file.name).replace(path)
    except OSError:
        pass  # it is translated at each start then
    return found


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "jbodlab" / f"sql-{version('sqlglot')}"


def translate(text: str) -> str:
    """Translate a text of Spark SQL for DuckDB.

    Raises:
        UnsupportedError: there is no translation that means the same.
    """
    import sqlglot

    (found,) = sqlglot.transpile(
        text, read="spark", write="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE
    )
    return found


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
