"""What a table is: its columns with their meaning, in Spark's types."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

STRING = StringType()
INT = IntegerType()
LONG = LongType()
BOOLEAN = BooleanType()
TIME = TimestampType()
BINARY = BinaryType()
DATE = DateType()
DOUBLE = DoubleType()
INTS = ArrayType(INT)
STRINGS = ArrayType(STRING)

SNAPSHOT_TYPE = "SNAPSHOT"
"""Record type of a state that was taken from a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column; `meaning` is its line in the data dictionary."""

    name: str
    type: DataType
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: the folder's name, what a row is, and the order in which rows are written."""

    name: str
    row: str
    columns: tuple[TableColumn, ...]
    order: tuple[str, ...]

    @property
    def schema(self) -> StructType:
        """The columns as Spark has them."""
        return struct(self.columns)


def struct(columns: tuple[TableColumn, ...]) -> StructType:
    """Return a schema of nullable fields."""
    return StructType([StructField(column.name, column.type) for column in columns])


def columns(*lines: tuple[str, DataType, str]) -> tuple[TableColumn, ...]:
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
