"""Numbers over time: partitions that lack something, replicas and leaders of each directory.

Each bucket of partitions gives by how much numbers change from one stretch of time to the next
(`derive.intervals`); summed up over buckets and over time these are the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Longs, spread
from analytics.decode.arrow_columns import times as time_array
from analytics.decode.arrow_columns import words
from analytics.decode.arrow_reading import FOR_EVER, elements, lengths, longs, times
from analytics.decode.lists import combinations
from analytics.derive.failure_parts import find_touched
from analytics.derive.failures import Failures
from analytics.derive.intervals import Intervals, joined, steps
from analytics.derive.log_end import LogEnd
from analytics.derive.partition_order import InOrder, PartitionKeys
from analytics.derive.placement_steps import Placements
from analytics.derive.shortages import LEADERLESS, UNDER_MIN_ISR
from analytics.tables.table import INT, LONG, STRING, TIME
from jbodlab.ids import NO_LEADER

PARTITIONS, UNDER_REPLICATED, NOT_PREFERRED = "partitions", "under_replicated", "not_preferred"
OFFLINE_REPLICAS, REPLICAS, LEADERS = "offline_replicas", "replicas", "leaders"
OFFLINE_DIRECTORIES, FAILED_BROKERS = "offline_directories", "failed_brokers"

STEP = pa.schema(
    [
        pa.field("what", STRING),
        pa.field("broker", INT),
        pa.field("directory", STRING),
        pa.field("from_time", TIME),
        pa.field("at_end", LONG),
        pa.field("ever", LONG),
    ]
)
"""By how much a number changes from one stretch of time to the next."""

_US_PER_MS = 1000

GAUGES = """
    SELECT what, broker, directory, from_time,
      sum(at_end) OVER so_far AS at_end, sum(ever) OVER so_far AS ever
    FROM (
      SELECT what, broker, directory, from_time, sum(at_end) AS at_end, sum(ever) AS ever
      FROM (
        SELECT what, broker, directory, from_time, at_end, ever FROM {gauge_steps}
        UNION ALL
        SELECT what, broker, NULL, from_time, at_end, ever
        FROM {gauge_steps} WHERE broker IS NOT NULL
      ) GROUP BY what, broker, directory, from_time HAVING sum(at_end) <> 0 OR sum(ever) <> 0
    ) WINDOW so_far AS (PARTITION BY what, broker, directory ORDER BY from_time
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
"""
"""The question that gives the table of gauges, from `gauge_steps` of every bucket."""


def failure_steps(failures: Failures, end: LogEnd) -> pa.Table:
    """Return how many directories are offline, and how many brokers do not serve, as STEP."""
    of_brokers = failures.of_brokers.astype(np.int64)
    own = Intervals(of_brokers, np.arange(len(failures)), failures.time, failures.ends)
    return _table((OFFLINE_DIRECTORIES, FAILED_BROKERS), own, end)


def partition_steps(
    history: pa.Table, outages: Mapping[str, Intervals], keys: PartitionKeys, end: LogEnd
) -> pa.Table:
    """Return how many partitions of a bucket lack something, as STEP.

    Args:
        history: The states of its partitions.
        outages: As `shortages.outage_intervals` gives them.
        keys: Numbers of partitions.
        end: End of the log.
    """
    replicas, isr = lengths(history.column("replicas")), lengths(history.column("isr"))
    leader = longs(history.column("leader"))
    _, brokers = elements(history.column("replicas"))
    starts = np.cumsum(replicas) - replicas
    some = replicas > 0
    first = np.full(len(leader), NO_LEADER, dtype=np.int64)
    first[some] = brokers[starts[some]]
    states = _states(history, keys)
    lacking = [
        *(
            states.take(np.nonzero(rows)[0])
            for rows in (
                np.ones(len(leader), dtype=np.bool_),
                isr < replicas,
                (leader != NO_LEADER) & (leader != first),
            )
        ),
        *(outages[name] for name in (LEADERLESS, UNDER_MIN_ISR)),
    ]
    names = (PARTITIONS, UNDER_REPLICATED, NOT_PREFERRED, LEADERLESS, UNDER_MIN_ISR)
    numbered = [each._replace(place=np.full_like(each.key, at)) for at, each in enumerate(lacking)]
    return _table(names, _together(numbered), end)


def replica_steps(
    placed: Placements, leadership: pa.Table, keys: PartitionKeys, end: LogEnd
) -> pa.Table:
    """Return how many replicas and leaders of a bucket each directory has, as STEP.

    Args:
        placed: The placements of the bucket.
        leadership: Who led its partitions.
        keys: Numbers of partitions.
        end: End of the log.
    """
    places = combinations(placed.broker, placed.directory.codes)
    until = np.where(placed.until == FOR_EVER, FOR_EVER, placed.until_time)
    replicas = Intervals(places.codes.astype(np.int64), placed.key, placed.since_time, until)
    leaders = _leaders(replicas, placed, leadership, keys)
    broker = placed.broker[places.rows]
    directory = placed.directory.codes[places.rows]
    return pa.concat_tables(
        _table((name,) * len(places.rows), each, end, broker, (directory, placed.directory.texts))
        for name, each in ((REPLICAS, replicas), (LEADERS, leaders))
    )


def offline_steps(
    placement: pa.Table, keys: PartitionKeys, failures: Failures, end: LogEnd
) -> pa.Table:
    """Return how many replicas of a bucket are offline with their directory or broker, as STEP."""
    touched = find_touched(placement, failures)
    row, failure = touched.row, touched.failure
    broker = longs(placement.column("broker"))[row]
    over = np.minimum(
        failures.ends[failure],
        np.where(
            longs(placement.column("valid_to_offset"), FOR_EVER)[row] == FOR_EVER,
            FOR_EVER,
            times(placement.column("valid_to_time"))[row],
        ),
    )
    offline = joined(Intervals(broker, keys.of(placement)[row], failures.time[failure], over))
    # A partition may have several replicas offline at once; each counts.
    replica = combinations(offline.place, offline.key >> 32, offline.key).codes.astype(np.int64)
    counted = offline._replace(place=np.zeros_like(replica), key=replica)
    return _table((OFFLINE_REPLICAS,), counted, end)


def _leaders(
    replicas: Intervals, placed: Placements, leadership: pa.Table, keys: PartitionKeys
) -> Intervals:
    """Return when which directory had the leader: each leadership where its replica was then."""
    size = len(placed.key)
    own = _interval(leadership, keys, "valid_from_time", "valid_to_time", "valid_to_offset")
    since = longs(leadership.column("valid_from_offset"))
    until = longs(leadership.column("valid_to_offset"), FOR_EVER)
    leader = longs(leadership.column("leader"))
    key = np.concatenate([placed.key, own.key])
    codes = combinations(key >> 32, key, np.concatenate([placed.broker, leader])).codes
    group, wanted = codes[:size].astype(np.int64), codes[size:].astype(np.int64)
    # The placements of one replica follow one another, so that their ends have their order.
    behind = 1 + max(int(placed.since.max(initial=0)), int(since.max(initial=0)))
    ends = InOrder(group, np.minimum(placed.until, behind))
    begins = InOrder(group, placed.since)
    low = ends.first(wanted, np.minimum(since + 1, behind))
    high = begins.first(wanted, until)
    high = np.where(high < 0, np.searchsorted(ends.key, wanted, side="right"), high)
    counts = np.where((low < 0) | (leader == NO_LEADER), 0, np.maximum(high - low, 0))
    led = np.repeat(np.arange(len(wanted)), counts)
    at = ends.rows[spread(low, counts)]
    return Intervals(
        replicas.place[at],
        own.key[led],
        np.maximum(replicas.start[at], own.start[led]),
        np.minimum(replicas.end[at], own.end[led]),
    )


def _states(history: pa.Table, keys: PartitionKeys) -> Intervals:
    return _interval(history, keys, "valid_from_time", "valid_to_time", "valid_to_offset")


def _interval(
    rows: pa.Table, keys: PartitionKeys, start: str, end: str, end_offset: str
) -> Intervals:
    key = keys.of(rows)
    is_open = longs(rows.column(end_offset), FOR_EVER) == FOR_EVER
    ended = np.where(is_open, FOR_EVER, times(rows.column(end)))
    return Intervals(np.zeros_like(key), key, times(rows.column(start)), ended)


def _together(parts: Sequence[Intervals]) -> Intervals:
    return Intervals(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _table(
    names: Sequence[str],
    given: Intervals,
    end: LogEnd,
    broker: Longs | None = None,
    directory: tuple[Longs, list[str]] | None = None,
) -> pa.Table:
    """Count intervals; the number of a place is that of its name, its broker and its directory."""
    width_us = end.bucket_ms * _US_PER_MS
    found = steps(given, width_us)
    distinct = list(dict.fromkeys(names))
    named = np.array([distinct.index(name) for name in names], dtype=np.int64)
    size = len(found.place)
    columns = {
        "what": words(named[found.place], distinct),
        "broker": pa.nulls(size, INT) if broker is None else pa.array(broker[found.place]),
        "directory": pa.nulls(size, STRING)
        if directory is None
        else words(directory[0][found.place], directory[1]),
        "from_time": time_array(found.stretch * width_us),
        "at_end": pa.array(found.at_end),
        "ever": pa.array(found.ever),
    }
    arrays = [columns[field.name].cast(field.type) for field in STEP]
    return pa.Table.from_arrays(arrays, schema=STEP)
