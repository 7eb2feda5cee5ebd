from __future__ import annotations

import random

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from analytics.decode.arrow_reading import FOR_EVER
from analytics.derive.failure_parts import Failures, find_touched
from analytics.derive.partition_order import InOrder, PartitionKeys


@pytest.mark.parametrize("scale", [1, 2**40, 2**58])
def test_the_first_row_of_a_key_at_or_behind_an_offset(scale: int) -> None:
    source = random.Random(scale)
    rows = [(source.randint(0, 5) << 33, source.randint(0, 30) * scale) for _ in range(200)]
    key, offset = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    order = InOrder(key, offset)
    wanted = [(number << 33, at * scale) for number in range(7) for at in range(-1, 32)]
    wanted += [(0, FOR_EVER), (1, 0)]
    wanted_key, wanted_offset = (
        np.array(column, dtype=np.int64) for column in zip(*wanted, strict=True)
    )

    assert [rows[row] for row in order.rows.tolist()] == sorted(rows)
    found = order.first(wanted_key, wanted_offset).tolist()
    for (of_key, at), place in zip(wanted, found, strict=True):
        behind = [row for row in rows if row[0] == of_key and row[1] >= at]
        if behind:
            assert rows[order.rows[place]] == min(behind)
        else:
            assert place == -1


def test_nothing_is_found_where_there_is_nothing() -> None:
    nothing = np.zeros(0, dtype=np.int64)

    found = InOrder(nothing, nothing).first(np.array([1, 2]), np.array([0, FOR_EVER]))

    assert found.tolist() == [-1, -1]


def test_a_partition_has_the_same_key_in_every_table() -> None:
    keys = PartitionKeys()
    one = pa.table({"topic_id": ["a", "b", "a"], "partition": pa.array([0, 0, 1], pa.int32())})
    other = pa.table({"topic_id": ["c", "b", "a"], "partition": pa.array([0, 0, 1], pa.int32())})

    first, second = keys.of(one).tolist(), keys.of(other).tolist()

    assert first[1:] == second[1:]
    assert len({*first, *second}) == 4


def test_a_failure_touches_what_was_placed_in_the_directory_or_broker_at_that_moment() -> None:
    source = random.Random(4)
    failures = [
        (source.randint(1, 3), source.choice(["x", "y", "z", None]), source.randint(0, 60))
        for _ in range(25)
    ]
    placed = []
    for _ in range(300):
        since = source.randint(0, 60)
        until = None if source.random() < 0.2 else since + source.randint(0, 20)
        placed.append(
            (source.randint(1, 4), source.choice(["x", "y", "z", "w", None]), since, until)
        )
    names = ("broker", "directory", "valid_from_offset", "valid_to_offset")
    table = pa.Table.from_pylist(
        [dict(zip(names, one, strict=True)) for one in placed],
        schema=pa.schema(
            [
                ("broker", pa.int32()),
                ("directory", pa.string()),
                ("valid_from_offset", pa.int64()),
                ("valid_to_offset", pa.int64()),
            ]
        ),
    )
    offsets = np.array([offset for _, _, offset in failures], dtype=np.int64)

    found = find_touched(
        table,
        Failures(
            broker=np.array([broker for broker, _, _ in failures], dtype=np.int64),
            directory=tuple(directory for _, directory, _ in failures),
            offset=offsets,
            time=offsets,
            batch=offsets,
            back=offsets,
            back_time=offsets,
        ),
    )

    assert sorted(zip(found.failure.tolist(), found.row.tolist(), strict=True)) == sorted(
        (number, row)
        for number, (broker, directory, offset) in enumerate(failures)
        for row, (on, where, since, until) in enumerate(placed)
        if on == broker
        and directory in (None, where)
        and since <= offset < (FOR_EVER if until is None else until)
    )
