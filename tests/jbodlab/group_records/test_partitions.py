"""The partition of a group, with values that Kafka gave."""

from __future__ import annotations

import pytest

from jbodlab.group_records.partitions import coordinator_partition, java_hash


@pytest.mark.parametrize(
    ("group", "partition"),
    [("g1", 42), ("my-group", 12), ("tx-1", 20), ("ü", 2), ("", 0), ("polygenelubricants", 0)],
)
def test_hash_known(group: str, partition: int) -> None:
    assert coordinator_partition(group, 50) == partition


def test_count_is_that_of_the_topic() -> None:
    assert coordinator_partition("g1", 5) == 2
    assert coordinator_partition("g1", 1) == 0


def test_hash_is_over_utf_16_units_with_a_sign() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("\N{GRINNING FACE}") == 0xD83D * 31 + 0xDE00
