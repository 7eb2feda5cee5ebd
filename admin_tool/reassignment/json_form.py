"""The reassignment file, in Kafka's form.

    {"version":1,"partitions":[
       {"topic":"foo","partition":0,"replicas":[1,2],"log_dirs":["/mnt/d1","any"]}]}

`version` and `log_dirs` may be left out; `any` leaves the choice of the directory to the broker.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from admin_tool.arguments import listed
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import Replica
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.vocabulary.reassignment_file import ANY_LOG_DIR, file_value

if TYPE_CHECKING:
    from jbodlab.cli.results import Assignment

_T = TypeVar("_T")


class PartitionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers and directories of one partition; without directories each is `any`."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a reassignment file, in its order."""

    partitions: tuple[PartitionPlan, ...]
    version: Literal[1] = 1

    @property
    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The wanted brokers of each partition."""
        return {one.topic_partition: one.replicas for one in self.partitions}

    @property
    def log_dirs(self) -> dict[Replica, str]:
        """The wanted directories, of the replicas for which one is named."""
        return {
            Replica(broker, *one.topic_partition): path
            for one in self.partitions
            for broker, path in zip(one.replicas, one.log_dirs or (), strict=False)
            if path != ANY_LOG_DIR
        }


def read_plan(path: str) -> Plan:
    """Read a reassignment file; `-` is the standard input.

    Raises:
        AdminError: it cannot be read, or is not a reassignment.
    """
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        return parse_plan(text)
    except OSError as error:
        raise AdminError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AdminError(f"cannot read {path}: expected UTF-8") from error
    except AdminError as error:
        raise AdminError(f"{path}: {error}") from error


def parse_plan(text: str) -> Plan:
    """Read a reassignment.

    Raises:
        AdminError: it is not one, is empty, or names a partition or a broker twice.
    """
    try:
        plan = msgspec.json.decode(text, type=Plan)
    except msgspec.DecodeError as error:
        raise AdminError(f"not a reassignment: {error}") from error
    if not plan.partitions:
        raise AdminError("the reassignment has no partitions")
    twice = duplicates(one.topic_partition for one in plan.partitions)
    if twice:
        raise AdminError(f"duplicate partitions: {listed(twice)}")
    for one in plan.partitions:
        name, count = one.topic_partition, len(one.replicas)
        if not count:
            raise AdminError(f"{name} has no replicas")
        if duplicates(one.replicas):
            raise AdminError(f"duplicate brokers of {name}: {listed(duplicates(one.replicas))}")
        if one.log_dirs is not None and len(one.log_dirs) != count:
            raise AdminError(
                f"{name}: expected as many log_dirs as replicas ({count}), got {len(one.log_dirs)}"
            )
    return plan


def as_value(
    replicas: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[Replica, str]
) -> Assignment:
    """Return an assignment in the form of the file, sorted by topic and partition; pure.

    Args:
        replicas: The brokers of each partition.
        log_dirs: The directories of replicas; those that are not in it get `any`.
    """
    return file_value(
        (*one, brokers, [log_dirs.get(Replica(broker, *one), ANY_LOG_DIR) for broker in brokers])
        for one, brokers in sorted(replicas.items())
    )


def duplicates(values: Iterable[_T]) -> list[_T]:
    """Return the values that occur more than once, each once, in the order of the first."""
    return [value for value, count in Counter(values).items() if count > 1]
