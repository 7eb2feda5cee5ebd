from __future__ import annotations

import random

import pyarrow as pa  # type: ignore[import-untyped]

from analytics.read.record_counts import RecordCounts

SCHEMA = pa.schema(
    [
        ("epoch", pa.int32()),
        ("type", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("problem", pa.string()),
    ]
)
Row = dict[str, object]


def counts_of(*batches: list[Row]) -> list[Row]:
    counts = RecordCounts()
    for rows in batches:
        counts.add(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    return sorted(counts.rows, key=str)


def row(offset: int, **more: object) -> Row:
    known: Row = {"epoch": 1, "type": "A", "offset": offset, "timestamp": offset * 10}
    return known | {"problem": None} | more


def test_counts_tell_first_and_last_by_offset_and_the_range_of_times() -> None:
    rows = [row(5, timestamp=90), row(3, timestamp=70), row(4, timestamp=10), row(6, type="B")]

    assert counts_of(rows) == [
        {
            "epoch": 1,
            "type": kind,
            "records": records,
            "first_offset": first,
            "first_time": first_time,
            "last_offset": last,
            "last_time": last_time,
            "earliest_time": earliest,
            "latest_time": latest,
        }
        for kind, records, first, first_time, last, last_time, earliest, latest in (
            ("A", 3, 3, 70, 5, 90, 10, 90),
            ("B", 1, 6, 60, 6, 60, 60, 60),
        )
    ]


def test_counts_do_not_depend_on_how_rows_are_cut() -> None:
    source = random.Random(2)
    rows = [
        row(offset, epoch=offset // 40, type=source.choice("ABC"), timestamp=source.randint(0, 99))
        for offset in range(100)
    ]

    assert counts_of(rows[:7], rows[7:50], rows[50:]) == counts_of(rows)


def test_a_problem_is_no_record_and_an_unknown_time_none() -> None:
    (count,) = counts_of([row(1, timestamp=None), row(2, problem="crc", epoch=None, type=None)])

    assert (count["records"], count["first_time"], count["latest_time"]) == (1, None, None)
