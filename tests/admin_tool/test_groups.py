"""Where a reset sets offsets to."""

from __future__ import annotations

import pytest

from admin_tool.groups import planned, read_target
from jbodlab.cli.parser import UsageError
from jbodlab.vocabulary.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
STARTS, ENDS = {A: 10, B: 0}, {A: 20, B: 5}


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("earliest", {A: 10, B: 0}),
        ("latest", {A: 20, B: 5}),
        ("15", {A: 15, B: 5}),
        ("3", {A: 10, B: 3}),
        ("-2", {A: 14}),
        ("+9", {A: 20}),
        ("2026-01-31", {A: 12, B: 5}),
    ],
)
def test_offsets_go_where_they_are_sent_and_stay_inside_the_log(
    to: str, expected: dict[TopicPartition, int]
) -> None:
    assert planned(read_target(to), {A: 16}, STARTS, ENDS, {A: 12, B: -1}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", ("earliest", 0)),
        ("latest", ("latest", 0)),
        ("0", ("offset", 0)),
        ("+100", ("shift", 100)),
        ("-100", ("shift", -100)),
        ("1970-01-01T00:00:01.500", ("time", 1_500)),
        ("1970-01-01T01:00+01:00", ("time", 0)),
        ("1970-01-02", ("time", 86_400_000)),
    ],
)
def test_a_target_is_an_edge_an_offset_a_shift_or_a_time(
    text: str, expected: tuple[str, int]
) -> None:
    assert read_target(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "1.5", "--1", "2026-13-01", "٣"])
def test_what_is_not_a_target_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--to: expected earliest, latest, an offset, \+N, -N"):
        read_target(text)
