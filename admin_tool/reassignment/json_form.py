"""The two JSON files of the tool, and the JSON that it prints.

    {"version":1,"partitions":[
       {"topic":"foo","partition":0,"replicas":[1,2],"log_dirs":["/mnt/d1","any"]}]}
    {"version":1,"topics":[{"topic":"foo"}]}

`version` and `log_dirs` may be left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from admin_tool.errors import AdminError
from admin_tool.requests.log_dirs import Replica
from jbodlab.ids import TopicPartition

VERSION = 1
ANY_LOG_DIR = "any"

_T = TypeVar("_T")


class NotJsonError(AdminError):
    """A text is no JSON at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """What a reassignment file says of one partition; a directory may be `any`."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...]


class Plan(tuple[PartitionPlan, ...]):
    """What a reassignment file says, in its order."""

    __slots__ = ()

    @property
    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The wanted brokers of each partition."""
        return {one.partition: one.replicas for one in self}

    @property
    def log_dirs(self) -> dict[Replica, str]:
        """The wanted directories, of the replicas for which one is named."""
        return {
            Replica(broker, one.partition.topic, one.partition.partition): path
            for one in self
            for broker, path in zip(one.replicas, one.log_dirs, strict=True)
            if path != ANY_LOG_DIR
        }


def read_file(path: str) -> str:
    """Return the text of a file.

    Raises:
        AdminError: it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise AdminError(f"Unable to read file {path}: {reason}") from error


def read_plan(path: str) -> Plan:
    """Read a reassignment file.

    Raises:
        AdminError: it cannot be read, or is not what it should be.
    """
    text = read_file(path)
    try:
        return parse_plan(text)
    except NotJsonError as error:
        raise AdminError(f"{path} is {error}") from error


def parse_plan(text: str) -> Plan:
    """Read a reassignment file.

    Raises:
        AdminError: it is not what it should be.
    """
    plan = []
    for entry in _entries(text, "partitions"):
        topic, index = _text(entry, "topic"), _number(entry, "partition")
        partition = TopicPartition(topic, index)
        replicas = tuple(_number_of("replicas", one) for one in _list(entry, "replicas"))
        log_dirs = tuple(
            _text_of("log_dirs", one)
            for one in (
                _list(entry, "log_dirs") if "log_dirs" in entry else [ANY_LOG_DIR] * len(replicas)
            )
        )
        if len(replicas) != len(log_dirs):
            raise AdminError(
                f"Size of replicas list [{_spaced(replicas)}] is different from size of log dirs "
                f"list [{_spaced(log_dirs)}] for partition {partition}"
            )
        plan.append(PartitionPlan(partition=partition, replicas=replicas, log_dirs=log_dirs))
    return Plan(plan)


def check_plan(plan: Plan) -> None:
    """Insist on a plan that can be executed.

    Raises:
        AdminError: it is empty, or names a partition or a broker twice.
    """
    if not plan:
        raise AdminError("Partition reassignment list cannot be empty")
    if any(not one.replicas for one in plan):
        raise AdminError("Partition replica list cannot be empty")
    twice = duplicates(one.partition for one in plan)
    if twice:
        listed = ",".join(map(str, twice))
        raise AdminError(f"Partition reassignment contains duplicate topic partitions: {listed}")
    wrong = [
        f"{one.partition} contains multiple entries for {','.join(map(str, brokers))}"
        for one in plan
        if (brokers := duplicates(one.replicas))
    ]
    if wrong:
        raise AdminError(
            f"Partition replica lists may not contain duplicate entries: {'. '.join(wrong)}"
        )


def read_topics(path: str) -> list[str]:
    """Read a file of topics.

    Raises:
        AdminError: it cannot be read, is not what it should be, or names a topic twice.
    """
    text = read_file(path)
    try:
        return parse_topics(text)
    except NotJsonError as error:
        raise AdminError(f"{path} is {error}") from error


def parse_topics(text: str) -> list[str]:
    """Read a file of topics.

    Raises:
        AdminError: it is not what it should be, or names a topic twice.
    """
    topics = [_text(entry, "topic") for entry in _entries(text, "topics")]
    twice = duplicates(topics)
    if twice:
        raise AdminError(
            f"List of topics to reassign contains duplicate entries: [{_spaced(twice)}]"
        )
    return topics


def render(
    replicas: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[Replica, str]
) -> str:
    """Return an assignment as JSON, sorted by topic and partition.

    Args:
        replicas: The brokers of each partition.
        log_dirs: The directories of replicas; those that are not in it get `any`.
    """
    partitions = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "replicas": list(brokers),
            "log_dirs": [
                log_dirs.get(Replica(broker, one.topic, one.partition), ANY_LOG_DIR)
                for broker in brokers
            ],
        }
        for one, brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def duplicates(values: Iterable[_T]) -> list[_T]:
    """Return what occurs more than once, each once, in the order of the first."""
    return [value for value, count in Counter(values).items() if count > 1]


def _entries(text: str, key: str) -> list[Mapping[str, object]]:
    try:
        root = json.loads(text)
    except ValueError as error:
        raise NotJsonError(f"not valid JSON: {error}") from error
    if not isinstance(root, dict):
        raise AdminError(f"Expected a JSON object with the field `{key}`")
    version = root.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise AdminError(f"Not supported version field value {json.dumps(version)}")
    entries = root.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise AdminError(f"Expected a list of JSON objects in the field `{key}`")
    return entries


def _field(entry: Mapping[str, object], key: str) -> object:
    if key not in entry:
        raise AdminError(f"No such field exists: `{key}`")
    return entry[key]


def _text(entry: Mapping[str, object], key: str) -> str:
    return _text_of(key, _field(entry, key))


def _number(entry: Mapping[str, object], key: str) -> int:
    return _number_of(key, _field(entry, key))


def _list(entry: Mapping[str, object], key: str) -> list[object]:
    value = _field(entry, key)
    if not isinstance(value, list):
        raise AdminError(f"Expected a list in the field `{key}`, received {json.dumps(value)}")
    return value


def _text_of(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise AdminError(f"Expected `String` value in `{key}`, received {json.dumps(value)}")
    return value


def _number_of(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise AdminError(f"Expected `Integer` value in `{key}`, received {json.dumps(value)}")
    return value


def _spaced(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
