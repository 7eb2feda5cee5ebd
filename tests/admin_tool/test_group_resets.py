"""To which offsets a reset of a group goes."""

from __future__ import annotations

import pytest

from admin_tool.errors import AdminError
from admin_tool.group_actions import reset_plan
from admin_tool.group_actions.selection import expand, read_topic
from jbodlab.ids import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
STARTS, ENDS = {A0: 5, A1: 0}, {A0: 20, A1: 0}


@pytest.mark.parametrize(
    ("wanted", "expected", "warning"),
    [
        (7, 7, None),
        (5, 5, None),
        (20, 20, None),
        (4, 5, "New offset (4) is lower than earliest offset for topic partition a-0."),
        (21, 20, "New offset (21) is higher than latest offset for topic partition a-0."),
    ],
)
def test_an_offset_that_is_not_there_becomes_the_nearest(
    wanted: int, expected: int, warning: str | None
) -> None:
    plan = reset_plan.within({A0: wanted}, STARTS, ENDS)

    assert plan.offsets == {A0: expected}
    said = [] if warning is None else [f"{warning} Value will be set to {expected}"]
    assert list(plan.warnings) == said


def test_a_shift_needs_a_committed_offset() -> None:
    assert reset_plan.shifted([A0], {A0: 10}, -3, STARTS, ENDS).offsets == {A0: 7}
    with pytest.raises(AdminError, match="Cannot shift offset for partition a-1 since there is no"):
        reset_plan.shifted([A0, A1], {A0: 10}, 1, STARTS, ENDS)


def test_what_has_no_offset_starts_at_the_end() -> None:
    assert reset_plan.current([A0, A1], {A0: 9}, ENDS).offsets == {A0: 9, A1: 0}


def test_a_time_without_a_record_is_the_end() -> None:
    plan = reset_plan.at_time({A0: -1, A1: 0}, ENDS)

    assert plan.offsets == {A0: 20, A1: 0}
    assert plan.warnings == (
        "Warn: Partition 0 from topic a is empty. Falling back to latest known offset.",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.010", 1_010),
        ("1970-01-01T00:00", 0),
        ("1970-01-01T00:00:02Z", 2_000),
        ("1970-01-01T01:00:00.5+01:00", 500),
        ("1970-01-01T00:00:00-0030", 1_800_000),
    ],
)
def test_times_are_utc_or_name_their_zone(text: str, expected: int) -> None:
    assert reset_plan.read_datetime(text) == expected


@pytest.mark.parametrize("text", ["1970-01-01", "1970-13-01T00:00:00", "yesterday", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(AdminError, match="is no time such as"):
        reset_plan.read_datetime(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("PT5S", 5_000), ("P1DT2H3M4.5S", 93_784_500), ("-PT1M", -60_000), ("PT-1S", -1_000)],
)
def test_durations_are_those_of_iso_8601(text: str, expected: int) -> None:
    assert reset_plan.read_duration(text) == expected


@pytest.mark.parametrize("text", ["P", "PT", "P1DT", "5S", "P1Y", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(AdminError, match="is no duration such as"):
        reset_plan.read_duration(text)


@pytest.mark.parametrize("with_group", [False, True])
def test_what_is_exported_can_be_read(with_group: bool) -> None:
    groups = ["g", 'h,"i'] if with_group else ["g"]
    plans = {group: {A1: 3, A0: 2} for group in groups}

    lines = reset_plan.export_lines(plans, with_group=with_group)

    assert lines[0] == ("g,a,0,2" if with_group else "a,0,2")
    assert reset_plan.read_file("\n".join(lines), groups) == plans


@pytest.mark.parametrize(
    ("text", "groups"),
    [("a,0", ["g"]), ("a,x,1", ["g"]), ("a,0,-1", ["g"]), ("a,0,1", ["g", "h"])],
)
def test_a_line_that_says_too_little_is_refused(text: str, groups: list[str]) -> None:
    with pytest.raises(AdminError, match=f"line 1, {text}, is not "):
        reset_plan.read_file(text, groups)


def test_topics_are_named_whole_or_in_part() -> None:
    assert read_topic("a") == ("a", None)
    assert read_topic("a:1,0") == ("a", (1, 0))
    for wrong in ("a:", ":1", "a:x", "a:1,"):
        with pytest.raises(AdminError, match="Invalid"):
            read_topic(wrong)
    wanted = [("a", None), ("b", (9,)), ("a", (1,))]
    assert expand(wanted, {"a": [0, 1]}) == [A0, A1, TopicPartition("b", 9)]
    with pytest.raises(AdminError, match="Topic 'c' does not exist"):
        expand([("c", None)], {"a": [0]})


def test_the_table_is_as_wide_as_its_names() -> None:
    assert reset_plan.table({"g" * 17: {A0: 2}}) == [
        f"{'GROUP':<17} {'TOPIC':<15} {'PARTITION':<10} NEW-OFFSET",
        f"{'g' * 17} {'a':<15} {'0':<10} 2",
    ]
