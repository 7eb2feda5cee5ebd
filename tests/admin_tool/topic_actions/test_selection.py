from __future__ import annotations

import re
from argparse import ArgumentTypeError
from uuid import UUID

import pytest

from admin_tool.arguments import key_value
from admin_tool.topic_actions.changes import assignment
from admin_tool.topic_actions.selection import expression, select
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.topics import TopicListing

TOPICS = [
    TopicListing(name=name, topic_id=UUID(int=1), is_internal=name.startswith("__"))
    for name in ("__offsets", "bar", "foo", "foo.1", "foobar")
]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], ["__offsets", "bar", "foo", "foo.1", "foobar"]),
        (["foo"], ["foo"]),
        (["foo.1", "__offsets"], ["__offsets", "foo.1"]),
    ],
)
def test_a_name_is_a_name_and_not_an_expression(names: list[str], found: list[str]) -> None:
    assert select(TOPICS, names, None) == found
    with pytest.raises(AdminError, match=re.escape("unknown topic 'fo.'")):
        select(TOPICS, ["fo."], None)


def test_an_expression_matches_whole_names() -> None:
    assert select(TOPICS, [], re.compile("foo")) == ["foo"]
    assert select(TOPICS, [], re.compile("foo.*|bar")) == ["bar", "foo", "foo.1", "foobar"]


def test_an_expression_never_matches_internal_topics() -> None:
    assert select(TOPICS, [], re.compile(".*")) == ["bar", "foo", "foo.1", "foobar"]
    with pytest.raises(AdminError, match=re.escape("no topic matches '__.*'")):
        select(TOPICS, [], re.compile("__.*"))


def test_a_missing_topic_is_a_failure_with_a_suggestion_unless_it_may_miss() -> None:
    with pytest.raises(AdminError) as refused:
        select(TOPICS, ["bar", "fobar"], None)
    assert str(refused.value) == "unknown topic 'fobar' (did you mean foobar?)"
    assert select(TOPICS, ["bar", "fobar"], None, may_miss=True) == ["bar"]


def test_with_may_miss_no_topic_at_all_is_not_everything() -> None:
    assert select(TOPICS, ["none"], None, may_miss=True) == []
    assert select(TOPICS, [], re.compile("none"), may_miss=True) == []


def test_a_bad_expression_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="invalid expression"):
        expression("(")


def test_an_assignment_names_the_brokers_of_each_partition() -> None:
    assert assignment("1:2,2:3") == [[1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:1", "a broker occurs twice in '1:1'"),
        ("1:2,2", "'2' has 1 replica, the first partition has 2"),
        ("x:1", "expected brokers of each partition, such as 1:2,2:3, got 'x:1'"),
        ("", "expected brokers of each partition, such as 1:2,2:3, got ''"),
    ],
)
def test_wrong_assignments_are_refused(text: str, message: str) -> None:
    with pytest.raises(ArgumentTypeError) as refused:
        assignment(text)
    assert str(refused.value) == message


def test_configs_are_pairs() -> None:
    assert key_value("a = b=c") == ("a", "b=c")
    assert key_value("d=") == ("d", "")
    for wrong in ("a", "=a"):
        with pytest.raises(ArgumentTypeError, match="expected KEY=VALUE, got "):
            key_value(wrong)
