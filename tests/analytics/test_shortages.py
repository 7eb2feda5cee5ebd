from __future__ import annotations

from datetime import UTC, datetime

from analytics.derive.sql_files import Scope
from analytics.tables.derived import SHORTAGES
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


def shortages(*outages: Row) -> list[tuple[object, ...]]:
    rows = []
    for row in answered(Scope.BUCKET, SHORTAGES, 100, outages=outages):
        seconds = (row[name].timestamp() for name in ("from_time", "to_time"))  # type: ignore[attr-defined]
        rows.append((row["topic_id"], row["kind"], *seconds, row["count"]))
    return rows


def test_what_has_no_leader_or_too_few_in_sync_cannot_be_written_once() -> None:
    assert shortages(
        outage(0, "leaderless", 10, 20),
        outage(0, "under_min_isr", 15, 30),
        outage(0, "under_min_isr", 40, None, is_open=True),
        outage(1, "under_min_isr", 15, 30),
    ) == [
        ("T", "leaderless", 10, 20, 1),
        ("T", "under_min_isr", 15, 30, 2),
        ("T", "under_min_isr", 40, 100, 1),
        ("T", "unwritable", 10, 30, 1),
        ("T", "unwritable", 15, 30, 1),
        ("T", "unwritable", 40, 100, 1),
    ]


def test_intervals_that_overlap_or_touch_are_one() -> None:
    given = [(0, 10), (10, 12), (3, 5), (13, 20), (60, None), (65, 66)]
    outages = [outage(7, "leaderless", *each, is_open=each[1] is None) for each in given]

    found = [row[2:] for row in shortages(*outages) if row[1] == "unwritable"]

    assert found == [(0, 12, 1), (13, 20, 1), (60, 100, 1)]


def test_an_interval_without_a_known_time_is_in_no_other() -> None:
    unknown = (outage(0, "leaderless", None, 10), outage(0, "leaderless", 10, None))

    found = answered(Scope.BUCKET, SHORTAGES, 100, outages=unknown)

    assert {row["kind"] for row in found} == {"leaderless"}


def test_without_outages_nothing_is_short() -> None:
    assert shortages() == []
