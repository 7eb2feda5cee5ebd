from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.derived.flap_parts import COLUMNS, flap_parts
from analytics.tables import ISR_CHANGES

Row = dict[str, object]
Totals = dict[tuple[object, object, object], tuple[int, int, int, int]]


def table_of(rows: list[Row]) -> pa.Table:
    schema = to_arrow_schema(ISR_CHANGES.schema, timezone="UTC")
    wanted = pa.schema([schema.field(name) for name in COLUMNS])
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


def summed_up(parts: list[Row], end_us: int) -> Totals:
    """Put the parts of each replica together, as the table does."""
    found: Totals = {}
    by_key: dict[tuple[object, object, object], list[Row]] = {}
    for part in parts:
        by_key.setdefault((part["topic_id"], part["partition"], part["broker"]), []).append(part)
    for key, own in by_key.items():
        own.sort(key=lambda part: part["first_offset"])  # type: ignore[arg-type,return-value]
        shrinks = expands = total = longest = 0
        for part, following in zip(own, [*own[1:], None], strict=True):
            shrinks += number(part, "shrinks")
            expands += number(part, "expands")
            total += number(part, "out_ms")
            longest = max(longest, number(part, "out_ms_max"))
            if part["open_us"] is not None:
                until = end_us if following is None else number(following, "first_us")
                lasted = (until - number(part, "open_us")) // 1000
                total, longest = total + lasted, max(longest, lasted)
        found[key] = (shrinks, expands, total, longest)
    return found


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


def test_parts_of_any_cut_sum_up_to_the_same() -> None:
    for seed in range(5):
        rows = random_changes(seed)
        expected = one_by_one(rows, 10_000_000)
        for cuts in ([0, 300], [0, 1, 50, 51, 200, 300]):
            parts: list[Row] = []
            for start, end in pairwise(cuts):
                parts += flap_parts(table_of(rows[start:end])).to_pylist()
            assert summed_up(parts, 10_000_000) == expected


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
    parts = flap_parts(pa.concat_tables(chunks)).to_pylist()

    assert summed_up(parts, 10_000_000) == one_by_one(rows, 10_000_000)


def test_no_changes_give_no_parts() -> None:
    assert flap_parts(table_of([])).num_rows == 0
