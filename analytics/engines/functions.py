"""Steps that SQL cannot express, by functions from Arrow to Arrow: views of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.rare import followed_partitions, kind_losses, rare_history
from analytics.tables.sql_files import CALLS
from analytics.tables.table import CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowFunction:
    """A function, and what it is called with.

    Attributes:
        reads: The step whose rows it gets.
        keys: Columns of a group; without any, all rows are one, or as many as the engine likes.
        call: Takes the rows of a group.
        schema: Columns of what it returns.
        is_of_many: Whether it takes the rows of many whole groups at once.
    """

    reads: str
    keys: tuple[str, ...]
    call: Callable[[pa.Table], pa.Table]
    schema: pa.Schema
    is_of_many: bool = False

    def of_all(self, rows: pa.Table) -> pa.Table:
        """Return what it makes of all rows."""
        if self.is_of_many or not self.keys:
            return self.call(rows)
        groups = _groups(rows, self.keys)
        return pa.concat_tables([self.schema.empty_table(), *map(self.call, groups)])


def plain(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows without dictionaries, with the columns of a schema."""
    columns = {name: _plain(rows.column(name)) for name in schema.names}
    return pa.table(columns).cast(schema)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column
    parts = [part.dictionary.take(part.indices) for part in column.chunks]
    return pa.chunked_array(parts, column.type.value_type)


def _groups(rows: pa.Table, keys: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of each group."""
    rows = rows.sort_by([(name, "ascending") for name in keys])
    values = zip(*(rows.column(name).to_pylist() for name in keys), strict=True)
    at = 0
    for _, group in groupby(values):
        size = len(list(group))
        yield rows.slice(at, size)
        at += size


FUNCTIONS: Mapping[str, ArrowFunction] = MappingProxyType(
    {
        "partition_steps": ArrowFunction(
            reads=CALLS["partition_steps"],
            keys=(CLUSTER, "topic_id"),
            is_of_many=True,
            call=followed_partitions.partition_steps,
            schema=followed_partitions.SCHEMA,
        ),
        "rare_history": ArrowFunction(
            reads=CALLS["rare_history"],
            keys=(CLUSTER, "key"),
            call=rare_history.rare_history,
            schema=rare_history.SCHEMA,
        ),
        "kind_losses": ArrowFunction(
            reads=CALLS["kind_losses"],
            keys=(),
            call=kind_losses.kind_losses,
            schema=kind_losses.KIND_LOSSES,
        ),
    }
)
"""By the name of the view."""
