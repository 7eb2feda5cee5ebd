"""What failures of log directories did to the partitions of one bucket, by columns.

A failure touches the replicas that were placed in the directory at that moment. What the controller
does about them stands before the record of the failure, in its batch or, if that is full, in those
right before: one record for each partition that is touched at most. So how many are touched in all
must be known before it can be said who lost its leader by it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Bools, Longs, spread
from analytics.decode.arrow_reading import FOR_EVER, firsts, lengths, longs, texts, times
from analytics.decode.partition_events import NO_TIME
from analytics.derive.partition_order import InOrder, PartitionKeys
from analytics.tables.table import INT, LONG, STRING
from jbodlab.ids import NO_LEADER

TOUCHED_BY = ("broker", "directory", "valid_from_offset", "valid_to_offset")
"""Columns of placements that tell whether a failure touched them."""

_GONE = frozenset(("replica_removed", "topic_deleted"))

MOMENT = pa.struct([pa.field("offset", LONG), pa.field("time", LONG)])
"""Offset, and time in microseconds since 1970."""
FAILURE_PART = pa.schema(
    [
        pa.field("failure", INT),
        pa.field("touched", LONG),
        pa.field("left", LONG),
        pa.field("last_left", MOMENT),
        pa.field("moved", LONG),
        pa.field("lost", LONG),
        pa.field("still_lost", LONG),
        pa.field("last_leader", MOMENT),
        pa.field("done", LONG),
        pa.field("last_done", MOMENT),
        pa.field("partitions", STRING),
    ]
)
"""What one failure did to one bucket: how many partitions were touched, have left the directory,
got another leader, lost theirs, never had one again, are whole again or gone; the last moment of
each kind; and the names of the partitions as a JSON array, for one long text is moved faster than
many short ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """All failures, one row each.

    Attributes:
        broker: Whose directory failed.
        directory: Text of its id.
        offset: Of the record that says so.
        time: Of that record, microseconds since 1970 or NO_TIME.
        batch: First offset of its batch.
        back: Offset at which the directory was no longer offline, FOR_EVER if it still is.
        since: First offset at which something may have been done about it; None if not known yet.
    """

    broker: Longs
    directory: tuple[str, ...]
    offset: Longs
    time: Longs
    batch: Longs
    back: Longs
    since: Longs | None = None

    def __len__(self) -> int:
        return len(self.broker)


class Touched(NamedTuple):
    """A row for each failure and replica that was placed in its directory."""

    failure: Longs
    row: Longs
    """The row of the placement."""


def touched_counts(placement: pa.Table, failures: Failures) -> Longs:
    """Return how many replicas each failure touched.

    Args:
        placement: TOUCHED_BY of some placements.
        failures: All of them.
    """
    touched = find_touched(placement, failures)
    counts: Longs = np.bincount(touched.failure, minlength=len(failures))
    return counts


def find_touched(placement: pa.Table, failures: Failures) -> Touched:
    """Return what was placed where at the moment of each failure."""
    numbers: dict[str, int] = {}
    for text in failures.directory:
        numbers.setdefault(text, len(numbers))
    of_failure = np.array([numbers[text] for text in failures.directory], dtype=np.int64)
    directory = texts(placement.column("directory")).renumbered(numbers)
    place = _place(longs(placement.column("broker")), directory)
    place[directory < 0] = -1
    failed = _place(failures.broker, of_failure)
    mine = np.nonzero(np.isin(place, failed))[0]
    mine = mine[np.argsort(place[mine], kind="stable")]
    since = longs(placement.column("valid_from_offset"))
    until = longs(placement.column("valid_to_offset"), FOR_EVER)
    found_failures: list[Longs] = []
    found_rows: list[Longs] = []
    bounds = [*np.nonzero(firsts(place[mine]))[0].tolist(), len(mine)]
    for low, high in pairwise(bounds):
        here = mine[low:high]
        own = np.nonzero(failed == place[here[0]])[0]
        own = own[np.argsort(failures.offset[own], kind="stable")]
        moments = failures.offset[own]
        first = np.searchsorted(moments, since[here], side="right")
        counts = np.maximum(np.searchsorted(moments, until[here], side="left") - first, 0)
        found_failures.append(own[spread(first, counts)])
        found_rows.append(np.repeat(here, counts))
    nothing = np.zeros(0, dtype=np.int64)
    return Touched(
        np.concatenate([nothing, *found_failures]), np.concatenate([nothing, *found_rows])
    )


def failure_parts(
    placement: pa.Table,
    leadership: pa.Table,
    history: pa.Table,
    keys: PartitionKeys,
    failures: Failures,
) -> list[dict[str, object]]:
    """Return what failures did to a bucket, as rows of FAILURE_PART.

    Args:
        placement: Where its replicas were.
        leadership: Who led its partitions.
        history: The states of its partitions.
        keys: Numbers of partitions.
        failures: With `since`.
    """
    touched = find_touched(placement, failures)
    if not len(touched.row):
        return []
    assert failures.since is not None
    key = keys.of(placement)[touched.row]
    until = longs(placement.column("valid_to_offset"), FOR_EVER)[touched.row]
    left = _Moments(until, times(placement.column("valid_to_time"))[touched.row])
    gone_by = texts(placement.column("ended_by")).where_in(_GONE)[touched.row]
    gone = left.only(gone_by)
    whole = _whole_again(history, keys, touched, key, failures)
    done = whole.or_earlier(gone)
    leaders = _leaders(leadership, keys, touched, key, failures)
    names = _names(placement, touched.row)
    still_lost = leaders.lost & ~leaders.again.known & ~gone.known
    return _summed_up(touched, left, done, leaders, still_lost, names)


@dataclass(frozen=True, slots=True)
class _Moments:
    """A moment per row; the offset is FOR_EVER where it has not come."""

    offset: Longs
    time: Longs

    @property
    def known(self) -> Bools:
        come: Bools = self.offset != FOR_EVER
        return come

    def only(self, rows: Bools) -> _Moments:
        return _Moments(np.where(rows, self.offset, FOR_EVER), self.time)

    def or_earlier(self, other: _Moments) -> _Moments:
        mine = (self.offset < other.offset) | (
            (self.offset == other.offset) & (self.time <= other.time)
        )
        return _Moments(
            np.where(mine, self.offset, other.offset), np.where(mine, self.time, other.time)
        )

    def take(self, rows: Longs) -> _Moments:
        return _Moments(self.offset[rows], self.time[rows])

    def last(self) -> dict[str, object] | None:
        """Return the last of those that have come."""
        come = self.take(np.nonzero(self.known)[0])
        if not len(come.offset):
            return None
        at = np.lexsort((come.time, come.offset))[-1]
        time = int(come.time[at])
        return {"offset": int(come.offset[at]), "time": None if time == NO_TIME else time}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaders:
    """For each touched row: whether its leader was moved or lost, and when it had one again."""

    moved: Bools
    lost: Bools
    again: _Moments


def _leaders(
    table: pa.Table, keys: PartitionKeys, touched: Touched, key: Longs, failures: Failures
) -> _Leaders:
    assert failures.since is not None
    previous = longs(table.column("previous_leader"), FOR_EVER)
    changes = np.nonzero(previous != FOR_EVER)[0]
    offset = longs(table.column("valid_from_offset"))[changes]
    order = InOrder(keys.of(table)[changes], offset)
    changes, offset = changes[order.rows], offset[order.rows]
    leader = longs(table.column("leader"))[changes]
    time = times(table.column("valid_from_time"))[changes]
    if not len(changes):
        never = np.zeros(len(key), dtype=np.bool_)
        forever = np.full(len(key), FOR_EVER, dtype=np.int64)
        return _Leaders(moved=never, lost=never, again=_Moments(forever, forever))
    first = order.first(key, failures.since[touched.failure])
    concerned = (
        (first >= 0)
        & (previous[changes][first] == failures.broker[touched.failure])
        & (offset[first] <= failures.back[touched.failure])
    )
    is_led = leader != NO_LEADER
    # The next change at or behind each one that names a leader.
    places = np.where(is_led, np.arange(len(changes)), len(changes))
    next_led = np.minimum.accumulate(places[::-1])[::-1]
    led = next_led[first]
    has_next = concerned & (led < len(changes))
    led = np.minimum(led, len(changes) - 1)
    has_next &= order.key[led] == key
    return _Leaders(
        moved=concerned & is_led[first],
        lost=concerned & ~is_led[first],
        again=_Moments(np.where(has_next, offset[led], FOR_EVER), time[led]),
    )


def _whole_again(
    table: pa.Table, keys: PartitionKeys, touched: Touched, key: Longs, failures: Failures
) -> _Moments:
    """Return when each touched partition had a leader and its full ISR."""
    is_whole = (longs(table.column("leader")) != NO_LEADER) & (
        lengths(table.column("isr")) >= lengths(table.column("replicas"))
    )
    states = np.nonzero(is_whole)[0]
    since = longs(table.column("valid_from_offset"))[states]
    until = longs(table.column("valid_to_offset"), FOR_EVER)[states]
    time = times(table.column("valid_from_time"))[states]
    detected = failures.offset[touched.failure]
    # An end behind every other one serves as one that has not come, and sorts faster.
    behind = 2 + max(int(since.max(initial=0)), int(detected.max(initial=0)))
    until = np.where(until == FOR_EVER, min(behind, FOR_EVER), until)
    # States follow one another, so that their ends have the order of their begins.
    order = InOrder(keys.of(table)[states], until)
    since, time = since[order.rows], time[order.rows]
    found = order.first(key, detected + 1)
    if not len(since):
        return _Moments(np.full(len(key), FOR_EVER, dtype=np.int64), np.zeros_like(key))
    already = since[found] <= detected
    return _Moments(
        np.where(found < 0, FOR_EVER, np.maximum(since[found], detected)),
        np.where(already, failures.time[touched.failure], time[found]),
    )


def _summed_up(
    touched: Touched,
    left: _Moments,
    done: _Moments,
    leaders: _Leaders,
    still_lost: Bools,
    names: list[str],
) -> list[dict[str, object]]:
    order = np.argsort(touched.failure, kind="stable")
    failure = touched.failure[order]
    bounds = [*np.nonzero(firsts(failure))[0].tolist(), len(order)]
    found: list[dict[str, object]] = []
    for low, high in pairwise(bounds):
        own = order[low:high]
        own_left, own_done = left.take(own), done.take(own)
        found.append(
            {
                "failure": int(failure[low]),
                "touched": high - low,
                "left": int(own_left.known.sum()),
                "last_left": own_left.last(),
                "moved": int(leaders.moved[own].sum()),
                "lost": int(leaders.lost[own].sum()),
                "still_lost": int(still_lost[own].sum()),
                "last_leader": leaders.again.take(own).last(),
                "done": int(own_done.known.sum()),
                "last_done": own_done.last(),
                "partitions": json.dumps([names[row] for row in own.tolist()]),
            }
        )
    return found


def _names(placement: pa.Table, rows: Longs) -> list[str]:
    topic = texts(placement.column("topic"))
    partition = longs(placement.column("partition"))[rows].tolist()
    named = topic.codes[rows].tolist()
    # A topic whose name is not known leaves the number only.
    return [
        str(number) if code < 0 else f"{topic.texts[code]}-{number}"
        for code, number in zip(named, partition, strict=True)
    ]


def _place(broker: Longs, directory: Longs) -> Longs:
    return directory << 32 | (broker & 0xFFFFFFFF)
