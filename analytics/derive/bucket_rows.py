"""Rows of tables, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.tables.table import Table


class BucketRows(Protocol):
    """Gives rows of tables: those of one bucket, or all."""

    def rows(self, table: Table, columns: Sequence[str]) -> pa.Table:
        """Return columns of a table."""


def few(rows: BucketRows, table: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of a table that has few of them, one by one; times are microseconds."""
    found = rows.rows(table, columns)
    kinds = [
        field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
        for field in found.schema
    ]
    return list(found.cast(pa.schema(kinds)).to_pylist())
