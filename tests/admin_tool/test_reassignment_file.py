from __future__ import annotations

import json
from pathlib import Path

import pytest

from admin_tool.errors import AdminError
from admin_tool.reassignment.json_form import (
    check_plan,
    parse_plan,
    parse_topics,
    read_file,
    render,
)
from admin_tool.requests.log_dirs import Replica
from jbodlab.ids import TopicPartition

FOO_0 = TopicPartition("foo", 0)


def text(*partitions: object, **rest: object) -> str:
    return json.dumps({"partitions": list(partitions), **rest})


def part(topic: str = "foo", partition: int = 0, **rest: object) -> dict[str, object]:
    return {"topic": topic, "partition": partition, **rest}


def test_a_plan_names_brokers_and_directories() -> None:
    plan = parse_plan(
        text(
            part(replicas=[1, 2, 3], log_dirs=["/mnt/d1", "any", "/mnt/d2"]),
            part(partition=1, replicas=[2]),
            version=1,
        )
    )
    assert plan.replicas == {FOO_0: (1, 2, 3), TopicPartition("foo", 1): (2,)}
    assert plan.log_dirs == {Replica(1, "foo", 0): "/mnt/d1", Replica(3, "foo", 0): "/mnt/d2"}


def test_what_is_printed_can_be_read_again() -> None:
    replicas = {TopicPartition("foo", 10): (2, 1), TopicPartition("foo", 2): (1,), FOO_0: (3,)}
    log_dirs = {Replica(2, "foo", 10): "/mnt/ä"}

    printed = render(replicas, log_dirs)

    assert parse_plan(printed).replicas == replicas
    assert parse_plan(printed).log_dirs == log_dirs
    assert render({FOO_0: (0, 1)}, {}) == (
        '{"version":1,"partitions":'
        '[{"topic":"foo","partition":0,"replicas":[0,1],"log_dirs":["any","any"]}]}'
    )
    indexes = [one["partition"] for one in json.loads(printed)["partitions"]]
    assert indexes == [0, 2, 10]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("garbage", "not valid JSON: "),
        ("[]", "Expected a JSON object"),
        (text(version=2), "Not supported version field value 2"),
        (text(version=True), "Not supported version field value true"),
        (text(1), "Expected a list of JSON objects in the field `partitions`"),
        (text({"topic": "foo", "replicas": [1]}), "No such field exists: `partition`"),
        (text(part()), "No such field exists: `replicas`"),
        (text(part(partition="0", replicas=[1])), "Expected `Integer` value in `partition`"),
        (text(part(topic=5, replicas=[1])), "Expected `String` value in `topic`, received 5"),
        (text(part(replicas=1)), "Expected a list in the field `replicas`, received 1"),
        (
            text(part(replicas=[1, 2], log_dirs=["any"])),
            "Size of replicas list [1, 2] is different from size of log dirs list [any] for "
            "partition foo-0",
        ),
    ],
)
def test_wrong_files_are_refused(wrong: str, message: str) -> None:
    with pytest.raises(AdminError) as refused:
        parse_plan(wrong)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([part(replicas=[])], "Partition replica list cannot be empty"),
        (
            [part(replicas=[1]), part(replicas=[2])],
            "Partition reassignment contains duplicate topic partitions: foo-0",
        ),
        (
            [part(replicas=[1, 1]), part(partition=1, replicas=[1, 2, 2, 1])],
            "Partition replica lists may not contain duplicate entries: "
            "foo-0 contains multiple entries for 1. foo-1 contains multiple entries for 1,2",
        ),
    ],
)
def test_plans_that_cannot_be_executed_are_refused(
    partitions: list[dict[str, object]], message: str
) -> None:
    with pytest.raises(AdminError) as refused:
        check_plan(parse_plan(text(*partitions)))
    assert str(refused.value) == message


def test_topics_are_named_once() -> None:
    assert parse_topics('{"version":1,"topics":[{"topic":"foo"},{"topic":"bar"}]}') == [
        "foo",
        "bar",
    ]
    with pytest.raises(
        AdminError, match=r"List of topics to reassign contains duplicate entries: \[foo\]"
    ):
        parse_topics('{"topics":[{"topic":"foo"},{"topic":"foo"}]}')


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(AdminError, match=r"Unable to read file .*: No such file or directory"):
        read_file(str(tmp_path / "none"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(AdminError, match=r"Unable to read file .*: it is not UTF-8"):
        read_file(str(tmp_path / "bytes"))
