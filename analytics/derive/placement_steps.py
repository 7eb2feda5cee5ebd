"""What followed what in the placement of replicas: moves within a broker, and assignment lag.

The log knows of a move within a broker when its directory is assigned; that it was queued, and that
the copy was put in its place, stays on the broker. A move is reverted when the next assignment on
the broker leads back to the directory before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Bools, Longs
from analytics.decode.arrow_columns import times as time_array
from analytics.decode.arrow_columns import words
from analytics.decode.arrow_reading import FOR_EVER, Texts, longs, milliseconds, texts, times
from analytics.decode.partition_events import NO_TIME
from analytics.derive.partition_order import PartitionKeys
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid

_RESERVED_PREFIX = "A" * 20
"""Text of the 120 zero bits that every reserved directory id begins with, and no real one."""

_UNASSIGNED = kafka_uuid.to_text(directory_ids.UNASSIGNED)
_MOVED = frozenset(("moved",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """The placements of a bucket, in the order of partition, broker and begin.

    Attributes:
        rows: `topic`, `topic_id` and `partition` of each.
        key: Of the partition.
        broker: Of the replica.
        directory: Codes and texts of the directories.
        since: Offset of the begin.
        since_time: Its time, NO_TIME where it is not known.
        until: Offset of the end, FOR_EVER if it still is.
        until_time: Its time.
        moved: Whether it ended by a move within the broker.
        real: Whether the directory is one.
    """

    rows: pa.Table
    key: Longs
    broker: Longs
    directory: Texts
    since: Longs
    since_time: Longs
    until: Longs
    until_time: Longs
    moved: Bools
    real: Bools

    def topic(self, rows: Longs) -> dict[str, pa.Array]:
        """Return topic and partition of some rows."""
        chosen = self.rows.take(pa.array(rows))
        return {name: chosen.column(name) for name in chosen.schema.names}

    def directory_texts(self, rows: Longs) -> pa.Array:
        """Return the directories of some rows, null for -1 in the place of a row."""
        codes = np.where(rows < 0, -1, self.directory.codes[rows])
        return words(codes, self.directory.texts)


def placements(table: pa.Table, keys: PartitionKeys) -> Placements:
    """Return the placements of a bucket in order.

    Args:
        table: Rows of `replica_placement`.
        keys: Numbers of partitions.
    """
    key = keys.of(table)
    broker, since = longs(table.column("broker")), longs(table.column("valid_from_offset"))
    order = np.lexsort((since, broker, key))
    directory = texts(table.column("directory"))
    real = np.array([*(not text.startswith(_RESERVED_PREFIX) for text in directory.texts), False])
    directory = Texts(directory.codes[order], directory.texts)
    return Placements(
        rows=table.select(["topic", "topic_id", "partition"]).take(pa.array(order)),
        key=key[order],
        broker=broker[order],
        directory=directory,
        since=since[order],
        since_time=times(table.column("valid_from_time"))[order],
        until=longs(table.column("valid_to_offset"), FOR_EVER)[order],
        until_time=times(table.column("valid_to_time"))[order],
        moved=texts(table.column("ended_by")).where_in(_MOVED)[order],
        real=real.astype(np.bool_)[directory.codes],
    )


def next_rows(placed: Placements) -> Longs:
    """Return for each placement the row that followed on the broker without a gap, or -1."""
    size = len(placed.key)
    rows = np.arange(size, dtype=np.int64)
    after = np.minimum(rows + 1, max(size - 1, 0))
    follows = (
        (after > rows)
        & (placed.key[after] == placed.key)
        & (placed.broker[after] == placed.broker)
        & (placed.since[after] == placed.until)
    )
    return np.where(follows, after, -1)


def directory_moves(placed: Placements) -> dict[str, pa.Array]:
    """Return the columns of the table of moves for those within a broker."""
    after = next_rows(placed)
    at = np.nonzero((after >= 0) & placed.moved & placed.real & placed.real[after])[0]
    to = after[at]
    third = after[to]
    codes = placed.directory.codes
    back = (third >= 0) & (codes[third] == codes[at])
    ended = np.where(back, third, to)
    broker = pa.array(placed.broker[at].astype(np.int32))
    size = len(at)
    assigned_time, ended_time = placed.since_time[to], placed.since_time[ended]
    return placed.topic(at) | {
        "broker": broker,
        "from_directory": placed.directory_texts(at),
        "to_directory": placed.directory_texts(to),
        "kind": words(np.zeros(size, dtype=np.int32), ["directory"]),
        "from_broker": broker,
        "to_broker": broker,
        "queued_offset": pa.nulls(size, pa.int64()),
        "queued_time": time_array(np.full(size, NO_TIME, dtype=np.int64)),
        "assigned_offset": pa.array(placed.since[to]),
        "assigned_time": time_array(assigned_time),
        "ended_offset": pa.array(placed.since[ended]),
        "ended_time": time_array(ended_time),
        "outcome": words(back.astype(np.int32), ["swapped", "reverted"]),
        # Of one that stayed, the log does not tell when it was begun.
        "duration_ms": milliseconds(assigned_time, ended_time, ~back),
    }


def assignment_lag(placed: Placements) -> dict[str, pa.Array]:
    """Return the columns of the table of assignment lag."""
    at = np.nonzero(placed.directory.where_in(frozenset((_UNASSIGNED,))))[0]
    after = np.where(placed.moved[at], next_rows(placed)[at], -1)
    none = after < 0
    assigned_time = np.where(none, NO_TIME, placed.since_time[after])
    return placed.topic(at) | {
        "broker": pa.array(placed.broker[at].astype(np.int32)),
        "created_offset": pa.array(placed.since[at]),
        "created_time": time_array(placed.since_time[at]),
        "assigned_offset": pa.array(placed.since[after], mask=none),
        "assigned_time": time_array(assigned_time),
        "directory": placed.directory_texts(after),
        "lag_ms": milliseconds(placed.since_time[at], assigned_time),
    }
