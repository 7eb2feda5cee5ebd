"""Rows of several kinds in one DataFrame: a column `kind`, and a column of the name of each kind.

A task has one output; what belongs to several tables leaves it mixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

KIND = "kind"
ROWS_PER_BATCH = 1 << 16


@dataclass(frozen=True)
class Kinds:
    """The columns of such a DataFrame; the first one is `kind`."""

    schema: pa.Schema

    def type_of(self, name: str) -> pa.DataType:
        """Return the type of a column."""
        return self.schema.field(name).type

    def batch(self, kind: str, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return rows of one kind; columns that are not given are null."""
        size = len(next(iter(columns.values())))
        arrays = [
            pa.array([kind] * size)
            if field.name == KIND
            else columns.get(field.name, pa.nulls(size, field.type))
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def of_rows(self, kind: str, rows: Sequence[object]) -> pa.RecordBatch:
        """Return rows that are given one by one, as mappings."""
        return self.batch(kind, {kind: pa.array(rows, type=self.type_of(kind))})


def of_kind(rows: DataFrame, kind: str) -> DataFrame:
    """Return the rows of one kind, with its columns."""
    return rows.where(f"{KIND} = '{kind}'").select(f"{kind}.*")


def told(rows: DataFrame, *aggregates: str) -> Row:
    """Return what is aggregated of all rows, in one job."""
    (found,) = rows.groupBy().agg(*map(F.expr, aggregates)).collect()
    return found


def task_label() -> str:
    """Return a label for the files of the task that asks, in the order of tasks."""
    task = TaskContext.get()
    return f"{0 if task is None else task.partitionId():05d}"
