"""Which log is to be compacted, how much of it, and which segments go together."""

from __future__ import annotations

import pytest

from jbodlab.storage.compaction.compaction import (
    DirtyRange,
    SourceSegment,
    dirty_range,
    group_segments,
    is_due,
)
from jbodlab.storage.log.leader_epochs import LeaderEpochs
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.storage.log.segments import ActiveSegment, ClosedSegment

NOW = 100_000
SIZES = {0: 100, 10: 200, 30: 300, 60: 400}
"""Of closed segments by base offset; the active one begins at 100."""


def log_of(cleaned_to: int | None = None, start: int = 0, **config: object) -> LogState:
    ends = [*list(SIZES)[1:], 100]
    closed = [
        ClosedSegment(base, end, size, base * 1_000, end - 1)
        for (base, size), end in zip(SIZES.items(), ends, strict=True)
    ]
    return LogState(
        LogConfig(cleanup_policy="compact", **config),  # type: ignore[arg-type]
        closed=closed,
        active=ActiveSegment(100),
        start_offset=start,
        recovery_point=0,
        epochs=LeaderEpochs(),
        producers=ProducerState(),
        cleaned_to=cleaned_to,
    )


@pytest.mark.parametrize(
    ("log", "stable", "expected"),
    [
        pytest.param(log_of(), 100, DirtyRange(0, 100, 0, 1_000), id="never cleaned"),
        pytest.param(log_of(30), 100, DirtyRange(30, 100, 300, 700), id="from the checkpoint on"),
        pytest.param(log_of(40), 100, DirtyRange(40, 100, 300, 700), id="within a segment"),
        pytest.param(log_of(5, start=10), 100, DirtyRange(10, 100, 100, 900), id="below the start"),
        pytest.param(log_of(500), 100, DirtyRange(0, 100, 0, 1_000), id="above the end"),
        pytest.param(log_of(10), 45, DirtyRange(10, 45, 100, 500), id="not beyond what is stable"),
        pytest.param(log_of(60), 20, DirtyRange(60, 60, 600, 0), id="nothing is stable there"),
        pytest.param(
            log_of(min_compaction_lag_ms=70_000),
            100,
            DirtyRange(0, 60, 0, 600),
            id="not what is too young",
        ),
        pytest.param(log_of(100), 100, DirtyRange(100, 100, 1_000, 0), id="all is clean"),
    ],
)
def test_what_is_dirty(log, stable, expected):
    assert dirty_range(log, stable, NOW) == expected


@pytest.mark.parametrize(
    ("dirty", "config", "first_timestamps", "expected"),
    [
        (DirtyRange(0, 100, 49, 51), {}, [], True),
        (DirtyRange(0, 100, 50, 50), {}, [], False),
        (DirtyRange(0, 100, 90, 10), {"min_cleanable_dirty_ratio": 0.05}, [], True),
        (DirtyRange(0, 100, 90, 10), {"max_compaction_lag_ms": 1_000}, [98_999], True),
        (DirtyRange(0, 100, 90, 10), {"max_compaction_lag_ms": 1_000}, [99_000], False),
        (DirtyRange(0, 100, 90, 10), {"max_compaction_lag_ms": 1_000}, [-1, 99_500], False),
        (DirtyRange(0, 100, 90, 0), {"max_compaction_lag_ms": 1_000}, [5], False),
        (DirtyRange(40, 40, 0, 10), {"min_cleanable_dirty_ratio": 0}, [], False),
        (DirtyRange(0, 0, 0, 0), {"min_cleanable_dirty_ratio": 0}, [], False),
    ],
)
def test_when_it_is_due(dirty, config, first_timestamps, expected):
    assert is_due(dirty, LogConfig(**config), NOW, first_timestamps) is expected


def sources(*segments: tuple[int, int], index: int = 8) -> list[SourceSegment]:
    """Return segments of these base offsets and sizes."""
    bases = [*(base for base, _ in segments), segments[-1][0] + 10]
    return [
        SourceSegment(ClosedSegment(base, base + 1, size, 0, base), bases[number + 1], index, 12)
        for number, (base, size) in enumerate(segments)
    ]


@pytest.mark.parametrize(
    ("found", "segment_bytes", "index_bytes", "expected"),
    [
        (sources((0, 40), (10, 60), (20, 1)), 100, 100, [[0, 10], [20]]),
        (sources((0, 40), (10, 61)), 100, 100, [[0], [10]]),
        (sources((0, 500), (10, 1), (20, 1)), 100, 100, [[0], [10, 20]]),
        (sources((0, 0), (10, 0), (20, 0)), 100, 100, [[0, 10, 20]]),
        (sources((0, 1), (10, 1), (20, 1), index=40), 100, 100, [[0, 10], [20]]),
        (sources((0, 1), (10, 1), (20, 1)), 100, 24, [[0, 10], [20]]),
        (sources((0, 1), (10, 1), (2**31 + 1, 1)), 100, 100, [[0], [10], [2**31 + 1]]),
        (sources((5, 1), (10, 1), (2**31, 1)), 100, 100, [[5, 10], [2**31]]),
    ],
)
def test_which_segments_become_one(found, segment_bytes, index_bytes, expected):
    groups = group_segments(found, segment_bytes, index_bytes)

    assert [[each.segment.base_offset for each in group] for group in groups] == expected


def test_nothing_to_clean_makes_no_group():
    assert group_segments([], 100, 100) == []
