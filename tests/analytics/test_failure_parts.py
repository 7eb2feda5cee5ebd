from __future__ import annotations

import random
from collections import Counter

from analytics.derive.sql_files import Scope
from analytics.tables.derived import FAILURE_LEADERS, FAILURE_PARTS
from tests.analytics.small_logs import Row, answered


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

    found = answered(Scope.BUCKET, FAILURE_PARTS, failures=failures, replica_placement=placed)

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


def led(offset: int, leader: int, previous: int | None, partition: int = 0) -> Row:
    return {
        "topic_id": "T",
        "partition": partition,
        "valid_from_offset": offset,
        "leader": leader,
        "previous_leader": previous,
    }


def leaders(touched_at_most: int, *changes: Row) -> list[tuple[object, ...]]:
    """Count leaders of partitions 0 and 1 where broker 1 fails at 100, in a batch from 98 on."""
    failure: Row = {
        "failure": 1,
        "broker": 1,
        "detected_offset": 100,
        "batch": 98,
        "touched_at_most": touched_at_most,
    }
    placed: list[Row] = [
        {"topic_id": "T", "partition": number, "broker": 1, "valid_from_offset": 0}
        for number in range(2)
    ]
    found = answered(
        Scope.BUCKET,
        FAILURE_LEADERS,
        failures=[failure],
        replica_placement=placed,
        leadership=changes,
    )
    names = ("of_partition", "since_offset", "moved", "lost", "still_lost", "last_leader_offset")
    rows = [tuple(row[name] for name in names) for row in found]
    return sorted(rows, key=str)


def test_the_first_change_after_a_failure_is_certain_if_none_is_right_before() -> None:
    certain = [(None, None, 1, 1, 0, 110)]
    changes = (led(0, 1, None), led(99, 2, 1), led(99, -1, 1, 1), led(110, 3, -1, 1))

    assert leaders(5, *changes) == certain
    # Further back than the failure can reach.
    assert leaders(5, led(94, 1, 2), *changes) == certain


def test_each_change_that_may_be_the_first_one_is_given_by_itself() -> None:
    changes = (led(0, 1, None), led(95, -1, 1), led(96, 1, -1), led(99, 2, 1), led(98, 2, 1, 1))

    assert leaders(5, *changes) == [
        (0, 95, 0, 1, 0, 96),
        (0, 96, 0, 0, 0, None),
        (0, 99, 1, 0, 0, 99),
        (None, None, 1, 0, 0, 98),
    ]


def test_a_change_by_which_another_broker_stopped_leading_is_none_of_the_failure() -> None:
    assert leaders(0, led(99, 2, 3), led(105, 1, 2)) == []
