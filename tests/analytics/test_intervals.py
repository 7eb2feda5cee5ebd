from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from analytics.decode.arrow_reading import FOR_EVER
from analytics.decode.partition_events import NO_TIME
from analytics.derive.intervals import Intervals, joined, steps

Given = tuple[int, int, int, int]
WIDTH = 10


def intervals(given: Sequence[Given]) -> Intervals:
    columns = np.array(given, dtype=np.int64).reshape(-1, 4).T
    return Intervals(*columns)


def told(found: Intervals) -> list[tuple[int, ...]]:
    return [tuple(map(int, row)) for row in zip(*found, strict=True)]


def test_intervals_of_one_thing_that_overlap_or_touch_are_one() -> None:
    given = [
        (1, 7, 0, 10),
        (1, 7, 10, 12),
        (1, 7, 3, 5),
        (1, 7, 13, 20),
        (1, 8, 12, 14),
        (2, 7, 0, FOR_EVER),
        (2, 7, 5, 6),
    ]

    assert told(joined(intervals(given))) == [
        (1, 7, 0, 12),
        (1, 7, 13, 20),
        (1, 8, 12, 14),
        (2, 7, 0, FOR_EVER),
    ]


def test_what_has_no_known_time_is_not_counted() -> None:
    assert told(joined(intervals([(1, 7, NO_TIME, 10), (1, 7, 10, NO_TIME)]))) == []
    assert told(joined(intervals([]))) == []
    assert [len(column) for column in steps(intervals([]), WIDTH)] == [0, 0, 0, 0]


def test_an_interval_within_one_stretch_was_there_and_is_gone_at_its_end() -> None:
    found = steps(intervals([(1, 7, 3, 5), (1, 7, 6, 6), (1, 7, 8, 9)]), WIDTH)

    assert told(found) == [(1, 0, 0, 1), (1, 1, 0, -1)]  # type: ignore[arg-type]


@pytest.mark.parametrize("cells_min", [1 << 16, -(1 << 16)], ids=["by cell", "in order"])
def test_numbers_over_time_are_those_counted_one_by_one(
    monkeypatch: pytest.MonkeyPatch, cells_min: int
) -> None:
    monkeypatch.setattr("analytics.derive.intervals._CELLS_MIN", cells_min)
    rng = random.Random(7)
    for _ in range(200):
        given: list[Given] = []
        for place in (1, 2):
            for key in range(3):
                now = rng.randrange(30)
                for _ in range(rng.randrange(5)):
                    end = now + rng.randrange(25)
                    given.append((place, key, now, end))
                    now = end + rng.choice((0, 0, rng.randrange(15)))
                if rng.random() < 0.5:
                    given.append((place, key, now, FOR_EVER))

        found = steps(intervals(given), WIDTH)

        for place in (1, 2):
            for stretch in range(25):
                own = (found.place == place) & (found.stretch <= stretch)
                low, high = stretch * WIDTH, (stretch + 1) * WIDTH
                mine = [(key, start, end) for where, key, start, end in given if where == place]
                at_end = {key for key, start, end in mine if start < high <= end}
                ever = {
                    key
                    for key, start, end in mine
                    if start < high and (end > low or start == end >= low)
                }
                assert found.at_end[own].sum() == len(at_end)
                assert found.ever[own].sum() == len(ever)
