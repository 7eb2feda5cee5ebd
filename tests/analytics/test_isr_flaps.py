from __future__ import annotations

import random

import pyarrow as pa  # type: ignore[import-untyped]

from analytics.derive.bucket_rows import ISR_CHANGE, PLACEMENT, no_rows
from analytics.derive.isr_flaps import isr_flaps
from analytics.derive.partition_order import PartitionKeys
from analytics.derive.placement_steps import placements
from analytics.tables.catalog import ISR_CHANGES, REPLICA_PLACEMENT

Row = dict[str, object]
END_US = 10_000_000

Totals = dict[tuple[object, object, object], tuple[int, int, int, int]]


def table_of(rows: list[Row]) -> pa.Table:
    schema = ISR_CHANGES.schema
    wanted = pa.schema([schema.field(name) for name in ISR_CHANGE])
    return pa.Table.from_pylist(rows, schema=wanted)


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
                "time": offset * 7000,
                "joined": sorted(after - before),
                "left": sorted(before - after),
                "cause": "reassignment" if source.random() < 0.1 else "follower",
            }
        )
    return rows


def number(part: Row, name: str) -> int:
    value = part[name]
    assert isinstance(value, int)
    return value


def one_by_one(rows: list[Row], end_us: int) -> Totals:
    """Follow each replica through the changes."""
    events: dict[tuple[object, object, object], list[tuple[int, bool]]] = {}
    for row in rows:
        left = [] if row["cause"] == "reassignment" else row["left"]
        for brokers, out in ((left, True), (row["joined"], False)):
            for broker in brokers:  # type: ignore[attr-defined]
                key = (row["topic_id"], row["partition"], broker)
                events.setdefault(key, []).append((number(row, "time"), out))
    found: Totals = {}
    for key, own in events.items():
        ends = [time for time, _ in own[1:]] + [end_us]
        lasted = [(end - time) // 1000 for (time, out), end in zip(own, ends, strict=True) if out]
        shrinks = sum(out for _, out in own)
        found[key] = (shrinks, len(own) - shrinks, sum(lasted), max(lasted, default=0))
    return found


def flaps(rows: pa.Table) -> Totals:
    """Sum up by columns, of replicas that are placed to the end."""
    keys = PartitionKeys()
    nowhere = placements(no_rows(REPLICA_PLACEMENT, PLACEMENT), keys)
    found = isr_flaps(rows, keys, nowhere, END_US)
    if found is None:
        return {}
    table = pa.table(found)
    return {
        (row["topic_id"], row["partition"], row["broker"]): (
            row["shrinks"],
            row["expands"],
            row["out_ms_total"],
            row["out_ms_max"],
        )
        for row in table.to_pylist()
    }


def test_changes_by_columns_sum_up_to_what_each_replica_went_through() -> None:
    for seed in range(5):
        rows = random_changes(seed)
        fell = {key: one for key, one in one_by_one(rows, END_US).items() if one[0]}

        assert flaps(table_of(rows)) == fell


def test_the_order_of_changes_does_not_matter() -> None:
    rows = random_changes(5)
    mixed = random.Random(1).sample(rows, len(rows))

    assert flaps(table_of(mixed)) == flaps(table_of(rows))


def test_dictionaries_that_differ_from_chunk_to_chunk_are_one() -> None:
    rows = random_changes(7)
    whole = table_of(rows)
    chunks = [
        part.set_column(
            part.schema.get_field_index("topic_id"),
            "topic_id",
            part.column("topic_id").dictionary_encode(),
        )
        for part in (whole.slice(0, 100), whole.slice(100))
    ]

    assert flaps(pa.concat_tables(chunks)) == flaps(whole)


def test_a_change_of_unknown_time_adds_no_time() -> None:
    rows = [row | {"time": None} for row in random_changes(3)]

    assert {(total, longest) for _, _, total, longest in flaps(table_of(rows)).values()} == {(0, 0)}


def test_no_changes_give_no_flaps() -> None:
    assert flaps(table_of([])) == {}
