"""The end of the log, up to which counts what still holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.log_span import LogSpan
from analytics.tables import catalog as t
from analytics.tables.table import Table

_US_PER_MS = 1000


class TableRows(Protocol):
    """Gives rows of tables."""

    def rows(self, table: Table, columns: Sequence[str]) -> pa.Table:
        """Return columns of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The time of the last record; None if there is none, or if its time is not known."""

    time_us: int | None
    """Microseconds since 1970."""
    bucket_ms: int
    """Length of the stretches of time that changes are counted by."""


def log_end(rows: TableRows) -> LogEnd:
    """Return the end of the log; without any records, the end of the snapshot.

    Args:
        rows: Of the tables of facts.
    """
    return LogEnd(time_us=_end_us(rows), bucket_ms=log_span(rows).bucket_ms)


def log_span(rows: TableRows) -> LogSpan:
    """Return the time that the log covers.

    Args:
        rows: Of the tables of facts.
    """
    counts = _few(rows, t.RECORD_COUNTS, ("earliest_time", "latest_time"))
    begins = [row["earliest_time"] for row in counts if row["earliest_time"] is not None]
    ends = [row["latest_time"] for row in counts if row["latest_time"] is not None]
    return LogSpan(
        first_ms=_milliseconds(min(begins, default=None)),
        last_ms=_milliseconds(max(ends, default=None)),
        end_ms=_milliseconds(_end_us(rows)),
    )


def _end_us(rows: TableRows) -> int | None:
    counts = _few(rows, t.RECORD_COUNTS, ("last_offset", "last_time"))
    known = [row for row in counts if row["last_offset"] is not None]
    if known:
        last: int | None = max(known, key=lambda row: int(row["last_offset"]))["last_time"]
        if last is not None:
            return last
    brokers = _few(rows, t.BROKERS, ("valid_from_time",))
    since = [row["valid_from_time"] for row in brokers if row["valid_from_time"] is not None]
    return max(since, default=None)


def _few(rows: TableRows, table: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows of a table that has few of them; times are microseconds."""
    found = rows.rows(table, columns)
    kinds = [
        field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
        for field in found.schema
    ]
    return list(found.cast(pa.schema(kinds)).to_pylist())


def _milliseconds(time_us: int | None) -> int | None:
    return None if time_us is None else time_us // _US_PER_MS
