"""Reassignments of the partitions of one bucket, by columns.

A reassignment runs while a partition has adding or removing replicas. When these change while it
runs, it was replaced by another one. Adding and removing replicas are paired in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.bytes.arrays import Bools, Longs, offsets_of, spread
from analytics.decode.arrow_columns import NOTHING, ints, words
from analytics.decode.arrow_columns import times as time_array
from analytics.decode.arrow_reading import (
    FOR_EVER,
    firsts,
    lengths,
    longs,
    milliseconds,
    times,
    whole,
)
from analytics.decode.lists import Ragged, intern, ragged
from analytics.decode.partition_events import NO_TIME
from analytics.derive.partition_order import InOrder, PartitionKeys
from analytics.derive.placement_steps import Placements, next_rows

_OUTCOMES = ["completed", "cancelled", "running"]
_COMPLETED, _CANCELLED, _RUNNING = range(len(_OUTCOMES))
_NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """One reassignment per row; `ended` is FOR_EVER if it still runs."""

    rows: pa.Table
    key: Longs
    adding: Ragged
    removing: Ragged
    queued: Longs
    queued_time: Longs
    ended: Longs
    ended_time: Longs
    replaced: Bools


def reassignments(
    history: pa.Table, keys: PartitionKeys, placed: Placements
) -> dict[str, pa.Array] | None:
    """Return the columns of the table of moves for those to other brokers; None if there are none.

    Args:
        history: The states of the partitions of the bucket.
        keys: Numbers of partitions.
        placed: The placements of the bucket.
    """
    runs = _runs(history, keys)
    if runs is None:
        return None
    counts = np.maximum(runs.adding.lengths, runs.removing.lengths)
    run = np.repeat(np.arange(len(counts)), counts)
    number = spread(np.zeros_like(counts), counts)
    from_broker, to_broker = _nth(runs.removing, run, number), _nth(runs.adding, run, number)
    key, queued, ended = runs.key[run], runs.queued[run], runs.ended[run]
    is_over = ended != FOR_EVER

    left = _Places(placed, key, from_broker)
    at_begin = (left.since <= queued[left.pair]) & (left.until >= queued[left.pair])
    from_row = left.last(at_begin)
    stayed = left.any((left.since <= ended[left.pair]) & (left.until > ended[left.pair])) & is_over

    came = _Places(placed, key, to_broker)
    meanwhile = (
        placed.real[came.row] & (came.until > queued[came.pair]) & (came.since <= ended[came.pair])
    )
    to_row = came.last(meanwhile)
    assigned = came.first(meanwhile & (came.since >= queued[came.pair]))
    at_end = (came.since <= ended[came.pair]) & (came.until > ended[came.pair])
    arrived = came.any(at_end) & is_over
    # A short one may be over before the broker has said where it put the replica.
    after = next_rows(placed)[came.row]
    said_later = at_end & ~placed.real[came.row] & (after >= 0) & placed.real[after]
    later = came.last(said_later)
    later[later >= 0] = next_rows(placed)[later[later >= 0]]
    to_row = np.where(to_row < 0, later, to_row)
    assigned = np.where(assigned < 0, later, assigned)

    done = np.where(to_broker != NOTHING, arrived, ~stayed)
    outcome = np.where(
        ~is_over,
        _RUNNING,
        np.where(runs.replaced[run] | ~done, _CANCELLED, _COMPLETED),
    )
    queued_time, ended_time = runs.queued_time[run], runs.ended_time[run]
    none = assigned < 0
    size = len(run)
    topic = {name: runs.rows.column(name).take(pa.array(run)) for name in runs.rows.schema.names}
    return topic | {
        "broker": ints(np.where(from_broker != NOTHING, from_broker, to_broker)),
        "from_directory": placed.directory_texts(from_row),
        "to_directory": placed.directory_texts(to_row),
        "kind": words(np.zeros(size, dtype=np.int32), ["reassignment"]),
        "from_broker": ints(from_broker),
        "to_broker": ints(to_broker),
        "queued_offset": pa.array(queued),
        "queued_time": time_array(queued_time),
        "assigned_offset": pa.array(np.where(none, 0, placed.since[assigned]), mask=none),
        "assigned_time": time_array(np.where(none, NO_TIME, placed.since_time[assigned])),
        "ended_offset": pa.array(np.where(is_over, ended, 0), mask=~is_over),
        "ended_time": time_array(ended_time),
        "outcome": words(outcome.astype(np.int32), _OUTCOMES),
        "duration_ms": milliseconds(queued_time, ended_time),
    }


def _runs(table: pa.Table, keys: PartitionKeys) -> _Runs | None:
    changing = (lengths(table.column("adding_replicas")) > 0) | (
        lengths(table.column("removing_replicas")) > 0
    )
    running = np.nonzero(changing)[0]
    if not len(running):
        return None
    table = table.take(pa.array(running))
    order = InOrder(keys.of(table), longs(table.column("valid_from_offset")))
    table = table.take(pa.array(order.rows))
    adding, removing = (_lists(table.column(f"{name}_replicas")) for name in ("adding", "removing"))
    since = longs(table.column("valid_from_offset"))
    until = longs(table.column("valid_to_offset"), FOR_EVER)
    same = (intern(adding).codes, intern(removing).codes)
    new_key = firsts(order.key)
    goes_on = ~new_key
    goes_on[1:] &= until[:-1] == since[1:]
    start = ~goes_on | firsts(*same)
    begins = np.nonzero(start)[0]
    ends = np.append(begins[1:], len(start)) - 1
    after = np.minimum(ends + 1, len(start) - 1)
    return _Runs(
        rows=table.select(["topic", "topic_id", "partition"]).take(pa.array(begins)),
        key=order.key[begins],
        adding=adding.take(begins),
        removing=removing.take(begins),
        queued=since[begins],
        queued_time=times(table.column("valid_from_time"))[begins],
        ended=until[ends],
        ended_time=times(table.column("valid_to_time"))[ends],
        replaced=(after > ends) & goes_on[after],
    )


class _Places:
    """The placements of one broker of each pair, in the order of their begin."""

    def __init__(self, placed: Placements, key: Longs, broker: Longs) -> None:
        # Placements have the order of replicas, so that those of one stand together.
        owner = np.nonzero(firsts(placed.key, placed.broker))[0]
        known = {
            replica: (low, high)
            for replica, low, high in zip(
                zip(placed.key[owner].tolist(), placed.broker[owner].tolist(), strict=True),
                owner.tolist(),
                [*owner[1:].tolist(), len(placed.key)],
                strict=True,
            )
        }
        pairs = zip(key.tolist(), broker.tolist(), strict=True)
        bounds = np.array([known.get(pair, (0, 0)) for pair in pairs], dtype=np.int64)
        low, high = bounds.reshape(-1, 2).T
        counts = high - low
        self.pair: Longs = np.repeat(np.arange(len(key)), counts)
        self.row: Longs = spread(low, counts)
        self.since: Longs = placed.since[self.row]
        self.until: Longs = placed.until[self.row]
        self._size = len(key)

    def any(self, chosen: Bools) -> Bools:
        """Return the pairs that have a chosen placement."""
        found = np.zeros(self._size, dtype=np.bool_)
        found[self.pair[chosen]] = True
        return found

    def last(self, chosen: Bools) -> Longs:
        """Return the row of the last chosen placement of each pair, or -1."""
        found = np.full(self._size, _NEVER, dtype=np.int64)
        # Of several values for one place, the last one stays.
        found[self.pair[chosen]] = self.row[chosen]
        return found

    def first(self, chosen: Bools) -> Longs:
        """Return the row of the first chosen placement of each pair, or -1."""
        found = np.full(self._size, _NEVER, dtype=np.int64)
        found[self.pair[chosen][::-1]] = self.row[chosen][::-1]
        return found


def _lists(column: pa.ChunkedArray) -> Ragged:
    one = whole(column)
    values = np.asarray(pc.list_flatten(one)).astype(np.int32)
    return ragged(offsets_of(lengths(one)), values)


def _nth(lists: Ragged, row: Longs, number: Longs) -> Longs:
    """Return an element of the list of each row, NOTHING where that is too short."""
    inside = number < lists.lengths[row]
    place = np.where(inside, lists.offsets[row] + number, 0)
    values = lists.values if len(lists.values) else np.zeros(1, dtype=np.int32)
    return np.where(inside, values[place].astype(np.int64), NOTHING)
