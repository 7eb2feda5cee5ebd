"""Facts about logs for planning: one row for a log, with the snapshots that its replay meets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.read.layout import Layout
from analytics.read.plain_rows import microseconds
from analytics.tables.table import BOOLEAN, INT, LONG, STRING, TYPES

TIMESTAMP = TYPES["timestamp"]

_SYNC_POINT = pa.struct(
    [
        ("offset", LONG),
        ("position", LONG),
        ("time", TIMESTAMP),
        ("file", STRING),
        ("is_base", BOOLEAN),
    ]
)

LOG_COLUMNS = pa.schema(
    [
        ("cluster", STRING),
        ("source", STRING),
        ("start_offset", LONG),
        ("replay_from", LONG),
        ("replay_from_time", TIMESTAMP),
        ("end_offset", LONG),
        ("log_end_offset", LONG),
        ("size_bytes", LONG),
        ("snapshots", INT),
        ("sync_points", pa.list_(pa.field("element", _SYNC_POINT))),
    ]
)
"""One row for each log. A sync point is a snapshot that the replay meets, `position` its place in
the order of replay, `is_base` whether the replay starts from it."""


def log_facts(logs: Iterable[tuple[str | None, Layout]]) -> pa.Table:
    """Return a row of LOG_COLUMNS for each log, given with the label of its cluster."""
    return pa.Table.from_pylist([_row(label, layout) for label, layout in logs], LOG_COLUMNS)


def _row(label: str | None, layout: Layout) -> dict[str, Any]:
    syncs = list(_sync_points(layout))
    base = [sync for sync in syncs if sync["is_base"]]
    return {
        "cluster": label,
        "source": layout.source,
        "start_offset": layout.start_offset,
        "replay_from": layout.replay_from,
        "replay_from_time": base[0]["time"] if base else None,
        "end_offset": layout.end_offset,
        "log_end_offset": layout.log_end_offset,
        "size_bytes": layout.size_bytes,
        "snapshots": len(layout.snapshots),
        "sync_points": syncs,
    }


def _sync_points(layout: Layout) -> Iterator[dict[str, Any]]:
    begins_later, replay_from = layout.start_offset != 0, layout.replay_from
    met = frozenset(layout.sync_offsets)
    for snapshot in layout.snapshots:
        if snapshot.end_offset in met:
            yield {
                "offset": snapshot.end_offset,
                "position": 2 * snapshot.end_offset,
                "time": microseconds(snapshot.timestamp_ms),
                "file": snapshot.name,
                "is_base": begins_later and snapshot.end_offset == replay_from,
            }
