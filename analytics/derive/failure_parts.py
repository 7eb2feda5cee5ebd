"""What failures of log directories and brokers did to the partitions of one bucket, by columns.

A failure touches the replicas that were placed there at that moment. What the controller
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
from analytics.derive.failure_costs import COSTS
from analytics.derive.failures import Failures, Places
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
        pa.field("costs", pa.struct(COSTS)),
    ]
)
"""What one failure did to one bucket: how many partitions were touched, have left the directory,
got another leader, lost theirs, never had one again, are whole again or gone; the last moment of
each kind; and the names of the partitions as a JSON array, for one long text is moved faster than
many short ones. Or, in rows of their own, what the failure cost the partitions of the bucket."""


class Touched(NamedTuple):
    """A row for each failure and replica that was placed there."""

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
    broker, directory = longs(placement.column("broker")), texts(placement.column("directory"))
    since = longs(placement.column("valid_from_offset"))
    until = longs(placement.column("valid_to_offset"), FOR_EVER)
    found_failures: list[Longs] = [np.zeros(0, dtype=np.int64)]
    found_rows: list[Longs] = [np.zeros(0, dtype=np.int64)]
    for places in Places.of(failures, broker, directory):
        for here, matching in places.matched(np.arange(len(broker))):
            own = matching[np.argsort(failures.offset[matching], kind="stable")]
            moments = failures.offset[own]
            # A snapshot tells of a failure and of the replicas there in one moment.
            first = np.searchsorted(moments, since[here], side="left")
            counts = np.maximum(np.searchsorted(moments, until[here], side="left") - first, 0)
            found_failures.append(own[spread(first, counts)])
            found_rows.append(np.repeat(here, counts))
    return Touched(np.concatenate(found_failures), np.concatenate(found_rows))


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
    names = _names(placement, touched, failures)
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
    whole_from, whole_time = failures.whole_from()
    begin = whole_from[touched.failure]
    is_back = begin != FOR_EVER
    begin = np.where(is_back, begin, FOR_EVER - 1)
    # An end behind every other one serves as one that has not come, and sorts faster.
    behind = 2 + max(int(since.max(initial=0)), int(begin[is_back].max(initial=0)))
    until = np.where(until == FOR_EVER, min(behind, FOR_EVER), until)
    # States follow one another, so that their ends have the order of their begins.
    order = InOrder(keys.of(table)[states], until)
    since, time = since[order.rows], time[order.rows]
    found = np.where(is_back, order.first(key, begin + 1), -1)
    if not len(since):
        return _Moments(np.full(len(key), FOR_EVER, dtype=np.int64), np.zeros_like(key))
    already = since[found] <= begin
    return _Moments(
        np.where(found < 0, FOR_EVER, np.maximum(since[found], begin)),
        np.where(already, whole_time[touched.failure], time[found]),
    )


def _summed_up(
    touched: Touched,
    left: _Moments,
    done: _Moments,
    leaders: _Leaders,
    still_lost: Bools,
    names: list[str | None],
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
                "partitions": json.dumps(
                    [name for row in own.tolist() if (name := names[row]) is not None]
                ),
            }
        )
    return found


def _names(placement: pa.Table, touched: Touched, failures: Failures) -> list[str | None]:
    """Return the names of partitions; None for what a broker touched, which is too many."""
    topic = texts(placement.column("topic"))
    partition = longs(placement.column("partition"))[touched.row].tolist()
    named = topic.codes[touched.row].tolist()
    found: list[str | None] = []
    for failure, code, number in zip(touched.failure.tolist(), named, partition, strict=True):
        if failures.directory[failure] is None:
            found.append(None)
        else:
            # A topic whose name is not known leaves the number only.
            found.append(str(number) if code < 0 else f"{topic.texts[code]}-{number}")
    return found
