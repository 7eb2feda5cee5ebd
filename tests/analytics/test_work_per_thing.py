"""Ten things or a thousand: the same expressions, and as many passes over what they are found in.

A step for each thing found (stretch, broker, epoch, failure, setting) over all that was read makes
hours of a log in which there are many. Nothing here looks at a clock: what is done is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pytest

from analytics.ask.broker_logs import FailureAt, LogLine, joined
from analytics.job.scan_stage import OTHERS
from analytics.job.small_records import effective_rows, sync_points
from analytics.rare.broker_facts import BrokerFacts, BrokerState
from analytics.rare.transactions import Dropped
from analytics.read.arrays import Column, groups, inside
from analytics.read.layout import Layout, SnapshotFile
from analytics.read.merged_layout import Run, put_together
from analytics.read.partition_events import PartitionEvents, without
from tests.analytics.work import elements_looked_at, lines_run

FEW, MANY = 10, 1000
ROWS = 4000
"""Of what the things are found in."""

Work = Callable[[Callable[[Column], Column]], object]


def stretches(count: int) -> list[Dropped]:
    """Return the second half of each of as many parts of the rows."""
    width = ROWS // count
    return [Dropped(at * width + width // 2, (at + 1) * width) for at in range(count)]


def rows(values: int) -> Column:
    """Return as many distinct values, on all rows."""
    return np.arange(ROWS) * 7919 % values


def layout(snapshots: int) -> Layout:
    ends = range(1, snapshots + 1)
    return Layout(
        directory=Path("log"),
        source="log",
        splits=(),
        problems=(),
        snapshots=tuple(
            SnapshotFile(name=f"{end:020}-0000000001.checkpoint", end_offset=end, timestamp_ms=end)
            for end in ends
        ),
        start_offset=0,
        end_offset=ROWS,
        log_end_offset=ROWS,
        size_bytes=0,
    )


def events() -> PartitionEvents:
    numbers, nothing = np.arange(ROWS), np.zeros(ROWS, dtype=np.int64)
    return PartitionEvents(
        topic_id=np.zeros((ROWS, 16), dtype=np.uint8),
        partition=nothing.astype(np.int32),
        offset=numbers,
        replay_offset=numbers,
        snapshot=numbers % 5 == 0,
        time=nothing,
        base=numbers,
        last=numbers,
        file=nothing.astype(np.int32),
        data=np.zeros(16, dtype=np.uint8),
        starts=nothing,
        ends=nothing,
        files=("log",),
    )


def event_stretches(count: int) -> Work:
    def work(watch: Callable[[Column], Column]) -> None:
        given = events()
        own = {name: getattr(given, name) for name in PartitionEvents.__slots__}
        without(PartitionEvents(**own | {"offset": watch(given.offset)}), stretches(count))

    return work


def broker_states(count: int) -> Work:
    states = [BrokerState(n, 0, None, False, False, frozenset()) for n in range(count)]
    facts = BrokerFacts(states)
    return lambda watch: facts.find(watch(rows(count)), np.arange(ROWS))


@pytest.mark.parametrize("work", [event_stretches, broker_states])
def test_arrays_are_not_gone_through_for_each_thing(work: Callable[[int], Work]) -> None:
    few, many = elements_looked_at(work(FEW)), elements_looked_at(work(MANY))

    assert few >= ROWS
    assert many < 2 * few + 20 * ROWS


def runs_of_copies(count: int) -> object:
    runs = [
        Run(
            copy=copy,
            file="log",
            start=0,
            end=1,
            first=10 * at,
            behind=10 * at + 10,
            epoch=at,
            begins_epoch=True,
        )
        for at in range(count)
        for copy in range(3)
    ]
    return put_together(runs)


def log_lines(count: int) -> object:
    begin = datetime(2026, 1, 31, tzinfo=UTC)
    hours = [begin + timedelta(hours=at) for at in range(count)]
    failures = [
        FailureAt(broker=1, directory="D", detected_offset=at, detected_time=time)
        for at, time in enumerate(hours)
    ]
    lines = [
        LogLine(
            file="f",
            line=at,
            time=time,
            level="ERROR",
            broker=1,
            log_dir="/d",
            directory=None,
            message="m",
        )
        for at, time in enumerate(hours)
    ]
    found = joined(lines, failures)
    assert [row["detected_offset"] for row in found] == list(range(count))
    return found


def met_snapshots(count: int) -> object:
    found = sync_points(layout(count))
    assert len(found) == count
    return found


@pytest.mark.parametrize("work", [runs_of_copies, log_lines, met_snapshots])
def test_a_thing_costs_the_same_however_many_there_are(work: Callable[[int], object]) -> None:
    few, some, many = (lines_run(partial(work, count)) for count in (FEW, 20, 500))

    each = (some - few) / (20 - FEW)
    assert many < few + 3 * each * 500


@pytest.mark.parametrize("count", [1, FEW, MANY])
def test_what_lies_in_stretches_is_found_also_where_they_overlap(count: int) -> None:
    given = [Dropped(0, 30), *stretches(count), Dropped(9, 5)]
    values = np.arange(-1, ROWS + 1)

    assert inside(values, given).tolist() == [
        any(start <= value < end for start, end in given) for value in values.tolist()
    ]
    assert not inside(values, []).any()


def test_groups_are_the_rows_of_each_value_in_order() -> None:
    assert [own.tolist() for own in groups(np.array([3, 1, 3, 2, 1]))] == [[1, 4], [3], [0, 2]]
    assert not list(groups(np.zeros(0)))


def test_rows_outside_of_aborted_transactions_are_those_that_are_replayed() -> None:
    def row(offset: int) -> dict[str, object]:
        is_control = offset == 7
        own = {"offset": offset, "replay_offset": offset, "snapshot": False}
        return {**own, "control": is_control, "home": offset}

    others = pa.Table.from_pylist([row(n) for n in range(12)], OTHERS)

    kept = effective_rows(others, 0, stretches(MANY))

    assert kept.column("offset").to_pylist() == [0, 1, 4, 5, 7, 8, 9]
    assert effective_rows(others, 11, stretches(MANY)).num_rows == 0
