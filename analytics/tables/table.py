"""Declaration of a table: its columns with their meaning, in Arrow's types.

A column is declared by a line, `name (type): meaning`, as in the heads of the files beside this;
a line that begins no column continues the meaning above it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

STRING = pa.string()
INT = pa.int32()
LONG = pa.int64()
BOOLEAN = pa.bool_()
BINARY = pa.binary()


def list_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of lists, with the name that Spark gives to their elements."""
    return pa.list_(pa.field("element", kind))


_END_POINT = {"name": STRING, "host": STRING, "port": INT, "security_protocol": INT}
_FEATURE = {"name": STRING, "min_supported_version": INT, "max_supported_version": INT}
TYPES: Mapping[str, pa.DataType] = {
    "string": STRING,
    "int": INT,
    "long": LONG,
    "double": pa.float64(),
    "boolean": BOOLEAN,
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "binary": BINARY,
    "int[]": list_of(INT),
    "string[]": list_of(STRING),
    "end_point[]": list_of(pa.struct(list(_END_POINT.items()))),
    "feature[]": list_of(pa.struct(list(_FEATURE.items()))),
}
"""Types of columns, as declarations name them."""

_COLUMN = re.compile(r"(\w+) \(([a-z_]+(?:\[\])?)\): (.*)")

CLUSTER = "cluster"
"""Column of every table: the label of a row's cluster. Readers take it from the path of a file."""

SNAPSHOT_TYPE = "SNAPSHOT"
"""Record type of a state that was taken from a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column; `meaning` is its line in the data dictionary."""

    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: the folder's name, what a row is, and the order in which rows are written.

    `columns` are those of the files. Readers add the column `cluster` from the name of the folder.
    """

    name: str
    row: str
    columns: tuple[TableColumn, ...]
    order: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows of one cluster; each may be null."""
        return pa.schema(fields(self.columns))

    def folder(self, cluster: str) -> str:
        """Return the folder of a cluster's rows, as Hive names partitions: TABLE/cluster=LABEL."""
        return f"{self.name}/{CLUSTER}={cluster}"


def declare(text: str) -> Table:
    """Return the table that a text declares."""
    head, _, body = text.partition("\n\n")
    name_and_row, _, order = head.partition("order by ")
    name, _, row = " ".join(name_and_row.split()).partition(": ")
    keys = order.replace(",", " ").split()
    return Table(name=name, row=row, columns=columns(body), order=tuple(keys))


def columns(text: str) -> tuple[TableColumn, ...]:
    """Return the columns of a declaration."""
    found: list[tuple[str, str, list[str]]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if begin := _COLUMN.fullmatch(line):
            found.append((begin[1], begin[2], [begin[3]]))
        else:
            found[-1][2].append(line)
    return tuple(
        TableColumn(name=name, type=TYPES[kind], meaning=" ".join(lines))
        for name, kind, lines in found
    )


def fields(columns: tuple[TableColumn, ...]) -> list[pa.Field]:
    """Return columns as fields of a schema or a struct."""
    return [pa.field(column.name, column.type) for column in columns]
