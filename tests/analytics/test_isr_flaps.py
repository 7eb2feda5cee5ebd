from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa  # type: ignore[import-untyped]

from analytics.derive.bucket import derive_bucket
from analytics.derive.log_end import LogEnd
from analytics.derive.sql_files import Scope
from analytics.tables.catalog import ISR_CHANGES
from analytics.tables.derived import FAILURES, ISR_FLAPS
from tests.analytics.small_logs import Row, answered, table_of

END = datetime.fromtimestamp(10, UTC)

Totals = dict[tuple[object, object, object], tuple[int, int, int, int]]


def random_changes(seed: int) -> list[Row]:
    source = random.Random(seed)
    inside = {(topic, index): {1, 2, 3} for topic in "ab" for index in range(2)}
    rows: list[Row] = []
    for offset in range(300):
        key = source.choice(list(inside))
        before = inside[key]
        after = {broker for broker in (1, 2, 3) if source.random() < 0.6}
        inside[key] = after
        rows.append(
            {
                "topic": key[0],
                "topic_id": key[0] * 3,
                "partition": key[1],
                "offset": offset,
                "time": datetime.fromtimestamp(offset * 0.007, UTC),
                "joined": sorted(after - before),
                "left": sorted(before - after),
                "cause": "reassignment" if source.random() < 0.1 else "follower",
            }
        )
    return rows


def one_by_one(rows: list[Row]) -> Totals:
    """Follow each replica through the changes."""
    events: dict[tuple[object, object, object], list[tuple[datetime, bool]]] = {}
    for row in rows:
        left = [] if row["cause"] == "reassignment" else row["left"]
        for brokers, out in ((left, True), (row["joined"], False)):
            for broker in brokers:  # type: ignore[attr-defined]
                key = (row["topic_id"], row["partition"], broker)
                events.setdefault(key, []).append((row["time"], out))  # type: ignore[arg-type]
    found: Totals = {}
    for key, own in events.items():
        ends = [time for time, _ in own[1:]] + [END]
        lasted = [
            (end - time) // timedelta(milliseconds=1)
            for (time, out), end in zip(own, ends, strict=True)
            if out
        ]
        shrinks = sum(out for _, out in own)
        found[key] = (shrinks, len(own) - shrinks, sum(lasted), max(lasted, default=0))
    return found


def flaps(rows: list[Row], **more: list[Row]) -> Totals:
    """Sum up in SQL."""
    found = answered(Scope.BUCKET, ISR_FLAPS, END.timestamp(), isr_changes=rows, **more)
    return {
        (row["topic_id"], row["partition"], row["broker"]): (
            row["shrinks"],
            row["expands"],
            row["out_ms_total"],
            row["out_ms_max"],
        )  # type: ignore[misc]
        for row in found
    }


def test_changes_sum_up_to_what_each_replica_went_through() -> None:
    for seed in range(5):
        rows = random_changes(seed)
        fell = {key: one for key, one in one_by_one(rows).items() if one[0]}

        assert flaps(rows) == fell


def test_the_order_of_changes_does_not_matter() -> None:
    rows = random_changes(5)
    mixed = random.Random(1).sample(rows, len(rows))

    assert flaps(mixed) == flaps(rows)


def test_a_change_of_unknown_time_adds_no_time() -> None:
    rows = [row | {"time": None} for row in random_changes(3)]

    assert {(total, longest) for _, _, total, longest in flaps(rows).values()} == {(0, 0)}


def test_no_changes_give_no_flaps() -> None:
    assert flaps([]) == {}


def test_dictionaries_that_differ_from_chunk_to_chunk_are_one() -> None:
    whole = table_of(ISR_CHANGES, random_changes(7))
    column = whole.schema.get_field_index("topic_id")
    chunks = [
        part.set_column(column, "topic_id", part.column("topic_id").dictionary_encode())
        for part in (whole.slice(0, 100), whole.slice(100))
    ]
    end = LogEnd(time_us=10_000_000, bucket_ms=10)
    no_failures = FAILURES.schema.empty_table()

    found = [
        dict(derive_bucket({ISR_CHANGES: changes}, no_failures, end))[ISR_FLAPS].sort_by(
            [(name, "ascending") for name in ISR_FLAPS.order]
        )
        for changes in (pa.concat_tables(chunks), whole)
    ]

    assert found[0].num_rows
    assert found[0].equals(found[1])
