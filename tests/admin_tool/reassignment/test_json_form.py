from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from admin_tool.reassignment.json_form import as_value, parse_plan, read_plan
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import Replica
from jbodlab.vocabulary.ids import TopicPartition

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


def test_a_printed_assignment_can_be_read_again() -> None:
    replicas = {TopicPartition("foo", 10): (2, 1), TopicPartition("foo", 2): (1,), FOO_0: (3,)}
    log_dirs = {Replica(2, "foo", 10): "/mnt/ä"}

    value = as_value(replicas, log_dirs)

    plan = parse_plan(json.dumps(value))
    assert (plan.replicas, plan.log_dirs) == (replicas, log_dirs)
    assert [one["partition"] for one in value["partitions"]] == [0, 2, 10]
    assert as_value({FOO_0: (0, 1)}, {}) == {
        "version": 1,
        "partitions": [
            {"topic": "foo", "partition": 0, "replicas": [0, 1], "log_dirs": ["any", "any"]}
        ],
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("garbage", "not a reassignment: JSON is malformed"),
        ("[]", "not a reassignment: Expected `object`, got `array`"),
        (text(version=2), "not a reassignment: Invalid enum value 2 - at `$.version`"),
        (text(part()), "not a reassignment: Object missing required field `replicas`"),
        (
            text(part(partition="0", replicas=[1])),
            "not a reassignment: Expected `int`, got `str` - at `$.partitions[0].partition`",
        ),
        (
            text(part(replicas=[1, 2], log_dirs=["any"])),
            "foo-0: expected as many log_dirs as replicas (2), got 1",
        ),
        (text(), "the reassignment has no partitions"),
        (text(part(replicas=[])), "foo-0 has no replicas"),
        (text(part(replicas=[1]), part(replicas=[2])), "duplicate partitions: foo-0"),
        (text(part(replicas=[1, 2, 2, 1])), "duplicate brokers of foo-0: 1,2"),
    ],
)
def test_wrong_files_are_refused(wrong: str, message: str) -> None:
    with pytest.raises(AdminError) as refused:
        parse_plan(wrong)
    assert str(refused.value).startswith(message)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(AdminError, match=f"^cannot read {path}: No such file or directory$"):
        read_plan(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(AdminError, match=f"^cannot read {path}: expected UTF-8$"):
        read_plan(str(path))
    path.write_text("{bad")
    with pytest.raises(AdminError, match=f"^{path}: not a reassignment: "):
        read_plan(str(path))


def test_a_dash_is_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text(part(replicas=[1]))))
    assert read_plan("-").replicas == {FOO_0: (1,)}
