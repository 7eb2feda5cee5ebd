"""Steps of intervals, here those of replicas in a directory: a broker is a place."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime

from tests.analytics.small_logs import Row, answered

Given = tuple[int, int, int, int | None]
"""Place, partition, begin, and end or None, in milliseconds."""
WIDTH = 10


ENDS: list[Row] = [{"end_time": datetime.fromtimestamp(1, UTC), "stretch_ms": WIDTH}]


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def steps(given: Sequence[Given]) -> list[tuple[int, int, int, int]]:
    """Return place, number of the stretch, and the two steps."""
    rows: list[Row] = [
        {
            "topic_id": "T",
            "partition": key,
            "broker": place,
            "valid_from_offset": start,
            "valid_from_time": at(start),
            "valid_to_offset": end,
            "valid_to_time": None if end is None else at(end),
        }
        for place, key, start, end in given
    ]
    return [
        (row["broker"], row["moment"] // (WIDTH * 1000), row["at_end"], row["ever"])  # type: ignore[operator, misc]
        for row in answered("gauge_steps", log_ends=ENDS, replica_placement=rows)
        if row["at_end"] or row["ever"]
    ]


def test_an_interval_within_one_stretch_was_there_and_is_gone_at_its_end() -> None:
    assert steps([(1, 7, 3, 5), (1, 7, 6, 6), (1, 7, 8, 9)]) == [(1, 0, 0, 1), (1, 1, 0, -1)]


def test_an_interval_without_a_known_time_is_not_counted() -> None:
    row: Row = {"topic_id": "T", "partition": 0, "valid_from_time": at(1), "valid_to_offset": 1}

    assert answered("gauge_steps", log_ends=ENDS, replica_placement=[row]) == []
    assert answered("gauge_steps", log_ends=ENDS, replica_placement=[{"topic_id": "T"}]) == []


def test_numbers_over_time_are_those_counted_one_by_one() -> None:
    rng = random.Random(7)
    given: list[Given] = []
    for place in range(100):
        for key in range(3):
            now = rng.randrange(30)
            for _ in range(rng.randrange(5)):
                end = now + rng.randrange(25)
                given.append((place, key, now, end))
                now = end + rng.choice((0, 0, rng.randrange(15)))
            if rng.random() < 0.5:
                given.append((place, key, now, None))

    found = steps(given)

    for place in range(100):
        mine = [each[1:] for each in given if each[0] == place]
        for stretch in range(25):
            own = [each for each in found if each[0] == place and each[1] <= stretch]
            low, high = stretch * WIDTH, (stretch + 1) * WIDTH
            at_end = {
                key for key, start, end in mine if start < high and (end is None or high <= end)
            }
            ever = {
                key
                for key, start, end in mine
                if start < high and (end is None or end > low or start == end >= low)
            }
            assert sum(each[2] for each in own) == len(at_end)
            assert sum(each[3] for each in own) == len(ever)
