"""What SQL cannot say, by functions from Arrow to Arrow: views that the engine makes of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
