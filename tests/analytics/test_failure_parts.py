from __future__ import annotations

import random
from collections import Counter

from tests.analytics.small_logs import Row, answered, picked


def test_a_failure_touches_what_was_placed_in_the_directory_or_broker_at_that_moment() -> None:
    source = random.Random(4)
    failures: list[Row] = [
        {
            "failure": number,
            "broker": source.randint(1, 3),
            "directory": source.choice(["x", "y", "z", None]),
            "detected_offset": source.randint(0, 60),
        }
        for number in range(25)
    ]
    placed: list[Row] = []
    for number in range(300):
        since = source.randint(0, 60)
        until = None if source.random() < 0.2 else since + source.randint(0, 20)
        placed.append(
            {
                "topic_id": "T",
                "partition": number,
                "broker": source.randint(1, 4),
                "directory": source.choice(["x", "y", "z", "w", None]),
                "valid_from_offset": since,
                "valid_to_offset": until,
            }
        )

    found = answered("failure_parts", failures=failures, replica_placement=placed)

    expected = Counter(
        failure["failure"]
        for failure in failures
        for row in placed
        if row["broker"] == failure["broker"]
        and failure["directory"] in (None, row["directory"])
        and row["valid_from_offset"] <= failure["detected_offset"]  # type: ignore[operator]
        and (
            row["valid_to_offset"] is None or failure["detected_offset"] < row["valid_to_offset"]  # type: ignore[operator]
        )
    )
    assert {row["failure"]: row["touched"] for row in found} == expected
    assert sum(expected.values()) > 100


def test_a_replica_is_whole_again_with_the_first_full_state_that_ends_behind_the_begin() -> None:
    failures: list[Row] = [
        {"failure": 1, "broker": 1, "directory": "x", "detected_offset": 10},
        # It counts from when the broker is back; the second one never is.
        {"failure": 2, "broker": 2, "detected_offset": 10, "back_offset": 20},
        {"failure": 3, "broker": 3, "detected_offset": 10},
    ]
    placed: list[Row] = [
        {
            "topic_id": "T",
            "partition": partition,
            "broker": broker,
            "directory": "x",
            "valid_from_offset": 0,
        }
        for partition in range(3)
        for broker in (1, 2, 3)
    ]

    def state(partition: int, since: int, until: int | None, isr: list[int], **more: object) -> Row:
        return {
            "topic_id": "T",
            "partition": partition,
            "valid_from_offset": since,
            "valid_to_offset": until,
            "leader": 1,
            "replicas": [1, 2, 3],
            "isr": isr,
            **more,
        }

    whole = [1, 2, 3]
    states = [
        # Whole up to the failure, again from 15 on, and once more later.
        state(0, 0, 10, whole),
        state(0, 10, 15, [1, 2]),
        state(0, 15, 18, whole),
        state(0, 18, 25, [1]),
        state(0, 25, None, whole),
        # Whole the whole time: at once.
        state(1, 0, None, whole),
        # Without a leader it is not whole.
        state(2, 0, None, whole, leader=-1),
    ]

    found = answered(
        "failure_parts",
        failures=failures,
        replica_placement=placed,
        partition_states=[
            {**row, "is_under_replicated": row["isr"] != whole, "is_isr_changed": False}
            for row in states
        ],
    )

    done = [
        (failure, touched, count, None if last is None else last["offset"])  # type: ignore[index]
        for failure, touched, count, last in picked(
            found, "failure", "touched", "done", "last_done"
        )
    ]
    assert done == [(1, 3, 2, 15), (2, 3, 2, 25), (3, 3, 0, None)]


def led(offset: int, leader: int, previous: int | None, partition: int = 0) -> Row:
    return {
        "topic_id": "T",
        "partition": partition,
        "valid_from_offset": offset,
        "leader": leader,
        "previous_leader": previous,
    }


def leaders(touched: int, *changes: Row) -> list[tuple[object, ...]]:
    """Count leaders of partitions where broker 1 fails at 100, in a batch from 98 on."""
    failure: Row = {"failure": 1, "broker": 1, "detected_offset": 100, "batch": 98}
    placed: list[Row] = [
        {"topic_id": "T", "partition": number, "broker": 1, "valid_from_offset": 0}
        for number in range(touched)
    ]
    found = answered(
        "failure_leaders", failures=[failure], replica_placement=placed, leadership=changes
    )
    return [
        (*counts, None if last is None else last["offset"])  # type: ignore[index]
        for *counts, last in picked(found, "moved", "lost", "still_lost", "last_leader")
    ]


CHANGES = (led(0, 1, None), led(99, 2, 1), led(99, -1, 1, 1), led(110, 3, -1, 1))


def test_the_first_change_after_a_failure_counts() -> None:
    assert leaders(2, *CHANGES) == [(1, 1, 0, 110)]


def test_what_is_further_back_than_the_failure_can_reach_is_none_of_it() -> None:
    before = led(94, -1, 1)

    assert leaders(5, before, *CHANGES) == [(1, 1, 0, 110)]
    assert leaders(6, before, *CHANGES) == [(0, 2, 0, 110)]


def test_of_several_changes_within_its_reach_the_first_one_counts() -> None:
    changes = (led(95, -1, 1), led(96, 1, -1), led(99, 2, 1), led(98, 2, 1, 1))

    assert leaders(5, led(0, 1, None), *changes) == [(1, 1, 0, 98)]
    assert leaders(3, led(0, 1, None), *changes) == [(2, 0, 0, 99)]


def test_a_change_by_which_another_broker_stopped_leading_is_none_of_the_failure() -> None:
    assert leaders(1, led(99, 2, 3), led(105, 1, 2)) == []
