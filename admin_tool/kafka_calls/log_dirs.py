"""Log directories: what brokers hold where, and moving replicas between directories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

from admin_tool.errors import RequestError
from admin_tool.kafka_calls.connection import Connection
from jbodlab.vocabulary.ids import TopicPartition

T = TypeVar("T")


class Replica(NamedTuple):
    """One replica of a partition; replicas sort by broker first."""

    broker: int
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Its partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldReplica:
    """A replica in a directory, or the copy of it that a move builds there.

    Attributes:
        offset_lag: Offsets that a current replica has beyond none, as Kafka counts it; those that
            a future one has still to copy.
    """

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, kw_only=True)
class LogDir:
    """One log directory of a broker; sizes are -1 where the broker does not say them."""

    path: str
    error_code: int
    replicas: tuple[HeldReplica, ...]
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False

    @cached_property
    def current(self) -> dict[TopicPartition, HeldReplica]:
        """The replicas that it holds."""
        return {TopicPartition(r.topic, r.partition): r for r in self.replicas if not r.is_future}

    @cached_property
    def future(self) -> dict[TopicPartition, HeldReplica]:
        """The copies that moves build in it."""
        return {TopicPartition(r.topic, r.partition): r for r in self.replicas if r.is_future}


class ReplicaDirs(NamedTuple):
    """Where a replica is, and where it moves to; None for neither."""

    current: str | None
    future: str | None


def by_broker(values: Mapping[Replica, T]) -> dict[int, dict[Replica, T]]:
    """Return values of replicas by their brokers, in order; pure."""
    brokers = sorted({replica.broker for replica in values})
    found: dict[int, dict[Replica, T]] = {broker: {} for broker in brokers}
    for replica, value in values.items():
        found[replica.broker][replica] = value
    return found


def describe_log_dirs(connection: Connection, broker: int) -> tuple[LogDir, ...]:
    """Return the directories of a broker with everything in them, in the order of the answer.

    Raises:
        RequestError: the broker refuses to say.
    """
    from kafka.protocol.admin import DescribeLogDirsRequest  # type: ignore[import-untyped]

    response = connection.call(DescribeLogDirsRequest(topics=None), broker)
    if response.error_code:
        raise RequestError(response.error_code)
    return tuple(
        LogDir(
            path=result.log_dir,
            error_code=result.error_code,
            replicas=tuple(
                HeldReplica(
                    topic=topic.name,
                    partition=one.partition_index,
                    size_bytes=one.partition_size,
                    offset_lag=one.offset_lag,
                    is_future=bool(one.is_future_key),
                )
                for topic in result.topics
                for one in topic.partitions
            ),
            total_bytes=_or_unknown(result.total_bytes),
            usable_bytes=_or_unknown(result.usable_bytes),
            is_cordoned=bool(result.is_cordoned),
        )
        for result in response.results
    )


def replica_dirs(connection: Connection, replicas: Iterable[Replica]) -> dict[Replica, ReplicaDirs]:
    """Return where replicas are, and move to; those in no online directory have neither."""
    found: dict[Replica, ReplicaDirs] = {}
    for broker, wanted in by_broker(dict.fromkeys(sorted(set(replicas)))).items():
        log_dirs = describe_log_dirs(connection, broker)
        current = {one: log_dir.path for log_dir in log_dirs for one in log_dir.current}
        future = {one: log_dir.path for log_dir in log_dirs for one in log_dir.future}
        for replica in wanted:
            one = replica.topic_partition
            found[replica] = ReplicaDirs(current.get(one), future.get(one))
    return found


def alter_replica_log_dirs(
    connection: Connection, broker: int, moves: Mapping[TopicPartition, str]
) -> dict[TopicPartition, int]:
    """Ask a broker to move replicas to directories; returns its error code for each."""
    from kafka.protocol.admin import AlterReplicaLogDirsRequest

    targets: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for one, path in moves.items():
        targets[path][one.topic].append(one.partition)
    dirs = [(path, list(topics.items())) for path, topics in targets.items()]
    request = AlterReplicaLogDirsRequest(dirs=dirs)
    return {
        TopicPartition(topic.topic_name, one.partition_index): one.error_code
        for topic in connection.call(request, broker).results
        for one in topic.partitions
    }


def _or_unknown(size_bytes: int | None) -> int:
    return -1 if size_bytes is None else size_bytes
