"""Ten things or five hundred: each costs the same.

A step for each thing found over all that was read makes hours of a log in which there are many.
Nothing here looks at a clock: what is done is counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from analytics.read.layout import Layout, SnapshotFile
from analytics.read.log_facts import log_facts
from analytics.read.merged_layout import Run, put_together

FEW = 10


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of Python a function runs, each turn of a comprehension one."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def layout(snapshots: int) -> Layout:
    ends = range(1, snapshots + 1)
    return Layout(
        source="log",
        splits=(),
        problems=(),
        snapshots=tuple(
            SnapshotFile(name=f"{end:020}-0000000001.checkpoint", end_offset=end, timestamp_ms=end)
            for end in ends
        ),
        start_offset=0,
        end_offset=4000,
        log_end_offset=4000,
        size_bytes=0,
    )


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


def met_snapshots(count: int) -> object:
    (found,) = log_facts([("one", layout(count))]).column("sync_points").to_pylist()
    assert len(found) == count
    return found


@pytest.mark.parametrize("work", [runs_of_copies, met_snapshots])
def test_a_thing_costs_the_same_however_many_there_are(work: Callable[[int], object]) -> None:
    work(1)  # what is imported with the first one is not counted

    few, some, many = (lines_run(partial(work, count)) for count in (FEW, 20, 500))

    each = (some - few) / (20 - FEW)
    assert many < few + 3 * each * 500
