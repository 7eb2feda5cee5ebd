"""Steps of partitions: the state that each record leads to, and what cannot be."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from analytics.rare.followed_partitions import SCHEMA, partition_steps
from analytics.tables.table import BOOLEAN, INT, LONG, STRING, TYPES

MIGRATING = "A" * 22
A, B, C = (letter * 22 for letter in "BCD")

RECORDS = pa.schema(
    [
        *((name, STRING) for name in ("cluster", "topic", "topic_id", "record_type")),
        *((name, INT) for name in ("partition", "version", "leader", "leader_epoch")),
        *((name, INT) for name in ("partition_epoch", "leader_recovery_state")),
        *((name, LONG) for name in ("replay_position", "offset", "end", "removed_offset")),
        *((name, LONG) for name in ("valid_from_offset", "batch_base_offset")),
        ("batch_last_offset", LONG),
        *((name, TYPES["timestamp"]) for name in ("valid_from_time", "removed_time")),
        *((name, BOOLEAN) for name in ("is_compared", "is_odd")),
        *((name, TYPES["int[]"]) for name in ("replicas", "isr", "removing_replicas")),
        *((name, TYPES["int[]"]) for name in ("adding_replicas", "eligible_leader_replicas")),
        ("last_known_elr", TYPES["int[]"]),
        ("directories", TYPES["string[]"]),
    ]
)

WHOLE: dict[str, Any] = {
    "leader": 1,
    "leader_epoch": 4,
    "partition_epoch": 7,
    "leader_recovery_state": 0,
    "replicas": [1, 2],
    "isr": [1, 2],
    "removing_replicas": [],
    "adding_replicas": [],
    "directories": [A, B],
    "eligible_leader_replicas": [],
    "last_known_elr": [],
}


def record(at: int, **said: Any) -> dict[str, Any]:
    return {
        "cluster": "c",
        "topic": "orders",
        "topic_id": "t1",
        "partition": 0,
        "version": 2,
        "record_type": "X",
        "replay_position": at,
        "offset": at,
        "end": 1000,
        "valid_from_offset": at,
        "valid_from_time": at * 1000,
        "batch_base_offset": at,
        "batch_last_offset": at,
        "is_compared": False,
        "is_odd": False,
        **said,
    }


def steps(*records: dict[str, Any]) -> list[dict[str, Any]]:
    found = partition_steps(pa.Table.from_pylist(list(records), RECORDS))
    assert found.schema.names == SCHEMA.names
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def test_a_field_is_that_of_the_last_record_that_has_it() -> None:
    first, second, third = steps(
        record(1, **WHOLE), record(2, isr=[1]), record(3, leader=2, isr=[1, 2])
    )

    assert (first["isr"], first["former_isr"]) == ([1, 2], None)
    assert (second["isr"], second["former_isr"], second["leader"]) == ([1], [1, 2], 1)
    assert (third["leader"], third["former_leader"], third["former_isr"]) == (2, 1, [1])
    assert third["directories"] == [A, B]
    assert [one["is_isr_changed"] for one in (first, second, third)] == [False, True, True]
    assert not any(one["is_placement_changed"] for one in (first, second, third))


def test_who_joined_the_isr_and_who_left_it_is_told_of_each_step_behind_the_first() -> None:
    whole = WHOLE | {"replicas": [1, 2, 3], "isr": [1, 2], "directories": [A, B, C]}
    found = steps(
        record(1, **whole),
        record(2, isr=[1]),
        record(3, leader=2),
        record(4, isr=[3, 2]),
        record(5, isr=[2, 3]),
        record(6, **whole, partition=1),
    )

    assert [(one["isr_joined"], one["isr_left"]) for one in found] == [
        (None, None),
        ([], [2]),
        ([], []),
        ([3, 2], [1]),
        ([], []),
        (None, None),
    ]


def test_a_change_raises_the_partition_epoch_and_a_named_leader_the_leader_epoch() -> None:
    found = steps(record(1, **WHOLE), record(2, isr=[1]), record(3, leader=1), record(4, isr=[1]))

    assert [one["partition_epoch"] for one in found] == [7, 8, 9, 10]
    assert [one["leader_epoch"] for one in found] == [4, 4, 5, 5]
    assert [one["seq"] for one in found] == [1, 2, 3, 4]


def test_partitions_are_followed_apart_and_in_order_of_replay() -> None:
    found = steps(
        record(5, leader=2),
        record(2, **WHOLE),
        record(3, **WHOLE, partition=1),
        record(4, **WHOLE, topic="bills", topic_id="t0"),
        record(6, leader=2, partition=1),
    )

    assert [(one["topic"], one["partition"], one["valid_from_offset"]) for one in found] == [
        ("bills", 0, 4),
        ("orders", 0, 2),
        ("orders", 0, 5),
        ("orders", 1, 3),
        ("orders", 1, 6),
    ]
    assert [one["former_leader"] for one in found] == [None, None, 1, None, 1]


def test_a_state_ends_with_the_next_one_or_with_its_topic() -> None:
    removed = {"removed_offset": 9, "removed_time": 9000}
    first, second = steps(record(1, **WHOLE, **removed), record(2, isr=[1], **removed))

    assert (first["valid_to_offset"], first["next_position"]) == (2, 2)
    assert first["valid_to_time"] == second["valid_from_time"]
    assert (second["valid_to_offset"], second["next_position"]) == (9, None)
    assert second["valid_to_time"] == second["removed_time"]


def test_without_directories_a_replica_is_somewhere_on_its_broker() -> None:
    nowhere = WHOLE | {"directories": []}
    first, second = steps(record(1, **nowhere), record(2, directories=[A, B]))

    assert first["directories"] == second["former_directories"] == [MIGRATING] * 2
    assert second["directories"] == [A, B]
    assert (first["is_odd"], second["is_placement_changed"]) == (False, True)


@pytest.mark.parametrize(
    "records",
    [
        [record(1, isr=[1])],
        [record(1, **WHOLE), record(2, **WHOLE)],
        [record(1, **WHOLE), record(2, directories=[A])],
        [record(1, **(WHOLE | {"replicas": [1, 2, 3]}))],
        [record(1, **WHOLE, is_compared=True)],
    ],
    ids=["unknown", "twice whole", "few directories", "many replicas", "only in a snapshot"],
)
def test_what_cannot_be_is_odd(records: list[dict[str, Any]]) -> None:
    assert steps(*records)[-1]["is_odd"]


def test_a_snapshot_that_tells_the_state_changes_nothing() -> None:
    told = WHOLE | {"partition_epoch": 8, "isr": [1]}
    first, second, compared, third = steps(
        record(1, **WHOLE),
        record(2, isr=[1]),
        record(3, **told, is_compared=True),
        record(4, isr=[1, 2]),
    )

    assert not any(one["is_odd"] for one in (first, second, compared, third))
    assert (second["valid_to_offset"], second["next_position"]) == (4, 4)
    assert (third["seq"], third["partition_epoch"], third["former_isr"]) == (3, 9, [1])


@pytest.mark.parametrize(
    "other",
    [
        {"leader": 2},
        {"leader_epoch": 5},
        {"partition_epoch": 8},
        {"isr": [2, 1]},
        {"directories": [A, C]},
        {"eligible_leader_replicas": [2]},
    ],
)
def test_a_snapshot_that_tells_another_state_is_odd(other: dict[str, Any]) -> None:
    assert steps(record(1, **WHOLE), record(2, **(WHOLE | other), is_compared=True))[1]["is_odd"]


def test_a_version_is_not_asked_for_what_it_does_not_have() -> None:
    with_elr = WHOLE | {"eligible_leader_replicas": [2]}
    old = WHOLE | {"directories": []}
    first = record(1, **with_elr)

    assert not steps(first, record(2, **WHOLE, is_compared=True, version=1))[1]["is_odd"]
    assert not steps(first, record(2, **old, is_compared=True, version=0))[1]["is_odd"]
    assert steps(first, record(2, **old, is_compared=True, version=1))[1]["is_odd"]


def test_a_partition_that_a_snapshot_lists_twice_is_odd() -> None:
    listed = record(2, **WHOLE, is_compared=True)

    assert [one["is_odd"] for one in steps(record(1, **WHOLE), listed, listed)] == [
        False,
        False,
        True,
    ]


def test_no_records_have_no_steps() -> None:
    assert steps() == []
