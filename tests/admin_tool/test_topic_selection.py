from __future__ import annotations

from uuid import UUID

import pytest

from admin_tool.errors import AdminError
from admin_tool.options import parse
from admin_tool.requests.topics import TopicListing
from admin_tool.topic_actions.assignment import parse_assignment
from admin_tool.topic_actions.create import new_topic, parse_configs
from admin_tool.topic_actions.selection import expect, select
from admin_tool.topics import OPTIONS

TOPICS = [
    TopicListing(name=name, topic_id=UUID(int=1), is_internal=name.startswith("__"))
    for name in ("__offsets", "bar", "foo", "foo.1", "foobar")
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, ["__offsets", "bar", "foo", "foo.1", "foobar"]),
        ("foo", ["foo"]),
        ("foo.*", ["foo", "foo.1", "foobar"]),
        ("'bar, foo'", ["bar", "foo"]),
        ("none", []),
    ],
)
def test_topics_are_named_by_whole_matches(wanted: str | None, found: list[str]) -> None:
    assert select(TOPICS, wanted, exclude_internal=False) == found


def test_internal_topics_can_be_left_out() -> None:
    assert "__offsets" not in select(TOPICS, None, exclude_internal=True)


def test_a_missing_topic_is_a_failure_where_one_was_named() -> None:
    with pytest.raises(AdminError) as refused:
        expect([], "foo", must_exist=True)
    assert str(refused.value) == "Topic 'foo' does not exist as expected"
    expect([], "foo", must_exist=False)
    expect([], None, must_exist=True)


def test_a_bad_pattern_is_refused() -> None:
    with pytest.raises(AdminError, match="is an invalid regex"):
        select(TOPICS, "(", exclude_internal=False)


def test_an_assignment_names_the_brokers_of_each_partition() -> None:
    assert parse_assignment("1:2,2:3") == [[1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:1", "Partition replica lists may not contain duplicate entries: 1"),
        ("1:2,2", r"Partition 1 has different replication factor: \[2\]"),
        ("x:1", 'For input string: "x"'),
        ("", 'For input string: ""'),
    ],
)
def test_wrong_assignments_are_refused(text: str, message: str) -> None:
    with pytest.raises(AdminError, match=message):
        parse_assignment(text)


def test_settings_are_pairs() -> None:
    assert parse_configs(["a = b=c", "d="]) == {"a": "b=c", "d": ""}
    with pytest.raises(AdminError, match='must be in the format "key=val"'):
        parse_configs(["a"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--partitions 0", "The partitions must be greater than 0"),
        ("--replication-factor 0", "The replication factor must be between 1 and 32767 inclusive"),
        ("--replication-factor 32768", "The replication factor must be between 1 and 32767"),
    ],
)
def test_numbers_of_a_new_topic_have_limits(line: str, message: str) -> None:
    with pytest.raises(AdminError, match=message):
        new_topic(parse(["--topic", "foo", *line.split()], OPTIONS))
