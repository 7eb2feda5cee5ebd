"""What a table is: its columns with their meaning, in Arrow's types."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

STRING = pa.string()
INT = pa.int32()
LONG = pa.int64()
BOOLEAN = pa.bool_()
TIME = pa.timestamp("us", tz="UTC")
BINARY = pa.binary()
DATE = pa.date32()
DOUBLE = pa.float64()


def list_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of lists, with the name that Spark gives to their elements."""
    return pa.list_(pa.field("element", kind))


INTS = list_of(INT)
STRINGS = list_of(STRING)

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


def fields(columns: tuple[TableColumn, ...]) -> list[pa.Field]:
    """Return columns as fields of a schema or a struct."""
    return [pa.field(column.name, column.type) for column in columns]


def columns(*lines: tuple[str, pa.DataType, str]) -> tuple[TableColumn, ...]:
    """Return columns from lines of name, type and meaning."""
    return tuple(TableColumn(name=name, type=kind, meaning=text) for name, kind, text in lines)


VALID_FROM = columns(
    ("valid_from_offset", LONG, "offset of the record that made this state"),
    ("valid_from_time", TIME, "time of that record"),
    ("record_type", STRING, "type of that record"),
    ("batch_base_offset", LONG, "first offset of its batch"),
)

VALID_TO = columns(
    ("valid_to_offset", LONG, "offset of the record that ended this state; null = still"),
    ("valid_to_time", TIME, "time of that record; null = still"),
)

PARTITION_KEY = columns(
    ("topic", STRING, "name of the topic"),
    ("topic_id", STRING, "id of the topic"),
    ("partition", INT, "partition of the topic"),
)
