from __future__ import annotations

import random
from collections import Counter

from tests.analytics.small_logs import Row, answered, holds


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
        placed.append(
            {
                "topic_id": "T",
                "partition": number,
                "broker": source.randint(1, 4),
                "directory": source.choice(["x", "y", "z", "w", None]),
                "valid_from_offset": since,
                "valid_to_offset": source.choice([None] * 5 + [*range(since, since + 20)]),
            }
        )

    found = answered("failure_parts", failures=failures, replica_placement=placed)

    expected = Counter(
        failure["failure"]
        for failure in failures
        for row in placed
        if row["broker"] == failure["broker"]
        and failure["directory"] in (None, row["directory"])
        and holds(row, failure["detected_offset"])
    )
    assert {row["failure"]: row["touched"] for row in found} == expected
    assert sum(expected.values()) > 100
