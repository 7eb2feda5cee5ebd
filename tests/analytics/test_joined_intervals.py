from __future__ import annotations

from datetime import UTC, datetime

from tests.analytics.small_logs import Row, answered


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def outage(
    partition: int, kind: str, start: float | None, end: float | None, *, is_open: bool = False
) -> Row:
    return {
        "topic_id": "T",
        "partition": partition,
        "kind": kind,
        "from_offset": 1,
        "from_time": None if start is None else at(start),
        "to_offset": None if is_open else 2,
        "to_time": None if end is None else at(end),
    }


def unwritable(*outages: Row) -> list[tuple[object, ...]]:
    """Return partition, begin and end of what could not be written."""
    return sorted(
        (
            row["partition"],
            row["from_time"].timestamp(),
            row["to_time"] and row["to_time"].timestamp(),
        )  # type: ignore[attr-defined]
        for row in answered("joined_intervals", outages=outages)
    )


def test_what_has_no_leader_or_too_few_in_sync_cannot_be_written_once() -> None:
    assert unwritable(
        outage(0, "leaderless", 10, 20),
        outage(0, "under_min_isr", 15, 30),
        outage(0, "under_min_isr", 40, None, is_open=True),
        outage(1, "under_min_isr", 15, 30),
    ) == [(0, 10, 30), (0, 40, None), (1, 15, 30)]


def test_intervals_that_overlap_or_touch_are_one() -> None:
    given = [(0, 10), (10, 12), (3, 5), (13, 20), (60, None), (65, 66)]
    outages = [outage(7, "leaderless", *each, is_open=each[1] is None) for each in given]

    assert unwritable(*outages) == [(7, 0, 12), (7, 13, 20), (7, 60, None)]


def test_an_interval_without_a_known_time_is_in_no_other() -> None:
    unknown = (outage(0, "leaderless", None, 10), outage(0, "leaderless", 10, None))

    assert unwritable(*unknown) == []
