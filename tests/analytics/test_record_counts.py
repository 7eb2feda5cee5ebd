from __future__ import annotations

from tests.analytics.small_logs import Answered, Row, answered, at


def counts_of(rows: list[Row], made_of: Answered = answered) -> list[Row]:
    return made_of("record_counts", log_rows=rows)


def row(offset: int, **more: object) -> Row:
    known: Row = {"epoch": 1, "type": "A", "offset": offset, "timestamp": at(offset * 10)}
    return known | {"snapshot": False} | more


def test_counts_tell_first_and_last_by_offset_and_the_range_of_times(made_of: Answered) -> None:
    times = {5: 90, 3: 70, 4: 10}
    rows = [row(offset, timestamp=at(time)) for offset, time in times.items()]

    assert counts_of([*rows, row(6, type="B")], made_of) == [
        {
            "epoch": 1,
            "type": kind,
            "records": records,
            "first_offset": first,
            "first_time": at(first_s),
            "last_offset": last,
            "last_time": at(last_s),
            "earliest_time": at(earliest_s),
            "latest_time": at(latest_s),
        }
        for kind, records, first, first_s, last, last_s, earliest_s, latest_s in (
            ("A", 3, 3, 70, 5, 90, 10, 90),
            ("B", 1, 6, 60, 6, 60, 60, 60),
        )
    ]


def test_a_problem_is_no_record_and_an_unknown_time_none() -> None:
    problem = row(2, problem="crc", epoch=None, type=None)
    (count,) = counts_of([row(1, timestamp=None), problem, row(3, snapshot=True)])

    assert (count["records"], count["first_time"], count["latest_time"]) == (1, None, None)
