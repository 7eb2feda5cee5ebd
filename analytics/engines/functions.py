"""What SQL cannot say, by functions from Arrow to Arrow: views that the engine makes of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.rare import kind_losses, rare_history
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
    """

    reads: str
    keys: tuple[str, ...]
    call: Callable[[pa.Table], pa.Table]
    schema: pa.Schema

    def of_all(self, rows: pa.Table) -> pa.Table:
        """Return what it makes of all rows."""
        groups = _groups(rows, self.keys) if self.keys else [rows]
        return pa.concat_tables([self.schema.empty_table(), *map(self.call, groups)])


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
