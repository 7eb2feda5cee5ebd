from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from analytics.derive.bucket_rows import OUTAGE
from analytics.derive.partition_order import PartitionKeys
from analytics.derive.shortages import outage_intervals, shortages
from analytics.tables import catalog as t

END_US = 100_000_000


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def outages(*rows: tuple[int, str, float, float | None]) -> pa.Table:
    schema = pa.schema([t.OUTAGES.schema.field(name) for name in OUTAGE])
    return pa.Table.from_pylist(
        [
            {
                "topic_id": "T",
                "partition": partition,
                "kind": kind,
                "from_offset": 1,
                "from_time": at(start),
                "to_offset": None if end is None else 2,
                "to_time": None if end is None else at(end),
            }
            for partition, kind, start, end in rows
        ],
        schema,
    )


def told(table: pa.Table) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    keys = PartitionKeys()
    for row in shortages(outage_intervals(table, keys), keys, END_US).to_pylist():
        seconds = (row[name].timestamp() for name in ("from_time", "to_time"))
        rows.append((row["topic_id"], row["kind"], *seconds, row["count"]))
    return rows


def test_what_has_no_leader_or_too_few_in_sync_cannot_be_written_once() -> None:
    found = told(
        outages(
            (0, "leaderless", 10, 20),
            (0, "under_min_isr", 15, 30),
            (0, "under_min_isr", 40, None),
            (1, "under_min_isr", 15, 30),
        )
    )

    assert found == [
        ("T", "leaderless", 10, 20, 1),
        ("T", "under_min_isr", 15, 30, 2),
        ("T", "under_min_isr", 40, 100, 1),
        ("T", "unwritable", 10, 30, 1),
        ("T", "unwritable", 15, 30, 1),
        ("T", "unwritable", 40, 100, 1),
    ]


def test_without_outages_nothing_is_short() -> None:
    assert told(outages()) == []
