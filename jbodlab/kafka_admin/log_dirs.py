"""Log directories: what brokers hold where, and moving replicas between directories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jbodlab.kafka_admin.errors import check, name_of
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient
    from jbodlab.kafka_wire.describe_log_dir_states import LogDirStateEntry
    from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirResponse

T = TypeVar("T")
NOT_TOLD = -1
"""A size that nobody says."""
_SERVING = ("", "ONLINE", "OFFLINE")
"""States that DescribeLogDirs shows too."""


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
class DescribedLogDir:
    """One log directory of a broker; sizes are NOT_TOLD where nobody says them.

    Attributes:
        total_bytes: Size of its file system.
        usable_bytes: Bytes of it that may still be written.
        is_cordoned: Whether no new replica may come into it.
        state: `ONLINE`, `OFFLINE`, `INITIAL` or `RECOVERING`; empty, as the next three, for Apache
            Kafka's brokers, which do not tell them.
        conditions: Such as `FULL` or `SLOW`.
        cause: Why it is offline.
        directory_id: Text of its id.
        has_metadata_log: Whether its broker stops without it.
    """

    path: str
    error_code: int = 0
    replicas: tuple[HeldReplica, ...] = ()
    total_bytes: int = NOT_TOLD
    usable_bytes: int = NOT_TOLD
    is_cordoned: bool = False
    state: str = ""
    conditions: tuple[str, ...] = ()
    cause: str = ""
    directory_id: str = ""
    has_metadata_log: bool = False

    @cached_property
    def current(self) -> dict[TopicPartition, HeldReplica]:
        """The replicas that it holds."""
        return {TopicPartition(r.topic, r.partition): r for r in self.replicas if not r.is_future}

    @cached_property
    def future(self) -> dict[TopicPartition, HeldReplica]:
        """The copies that moves build in it."""
        return {TopicPartition(r.topic, r.partition): r for r in self.replicas if r.is_future}

    @cached_property
    def sizes(self) -> dict[TopicPartition, int]:
        """Bytes of each replica that lies in it."""
        return self._sizes(is_future=False)

    @cached_property
    def futures(self) -> dict[TopicPartition, int]:
        """Bytes of each replica that is on its way into it."""
        return self._sizes(is_future=True)

    def _sizes(self, *, is_future: bool) -> dict[TopicPartition, int]:
        return {
            TopicPartition(held.topic, held.partition): held.size_bytes
            for held in self.replicas
            if held.is_future is is_future
        }

    @property
    def error(self) -> str:
        """Name of the error for an offline one, else empty."""
        return name_of(self.error_code) if self.error_code else ""

    @property
    def word(self) -> str:
        """Its state in the words of our brokers; Kafka's tell an error, or none."""
        return self.state or ("OFFLINE" if self.error_code else "ONLINE")

    @property
    def reason(self) -> str:
        """Why it is offline, as far as its broker tells; else empty."""
        of_kafka = f"{self.error} (DescribeLogDirs)" if self.error_code and not self.state else ""
        return self.cause or of_kafka

    @property
    def troubles(self) -> tuple[str, ...]:
        """Its conditions, or that its logs are being loaded; none where it serves and is well."""
        return self.conditions if self.state in _SERVING else (self.state,)


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


async def describe_log_dirs(
    client: AdminClient, broker: int | None, timeout_s: float | None = None
) -> tuple[DescribedLogDir, ...]:
    """Return the directories of a broker with everything in them, in the order of the answer.

    Raises:
        RequestError: the broker refuses to say.
    """
    response = await client.call(
        ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}, broker, timeout_s=timeout_s
    )
    if hasattr(response, "error_code"):
        # Versions from 3 on have an error of the whole answer.
        check(response)
    return tuple(
        DescribedLogDir(
            path=result.log_dir,
            error_code=int(result.error_code),
            replicas=tuple(
                HeldReplica(
                    topic=topic.name,
                    partition=one.partition_index,
                    size_bytes=one.partition_size,
                    offset_lag=one.offset_lag,
                    is_future=one.is_future_key,
                )
                for topic in result.topics
                for one in topic.partitions
            ),
            total_bytes=getattr(result, "total_bytes", NOT_TOLD),
            usable_bytes=getattr(result, "usable_bytes", NOT_TOLD),
            is_cordoned=getattr(result, "is_cordoned", False),
        )
        for result in response.results
    )


async def replica_dirs(
    client: AdminClient, replicas: Iterable[Replica]
) -> dict[Replica, ReplicaDirs]:
    """Return where replicas are, and move to; those in no online directory have neither."""
    found: dict[Replica, ReplicaDirs] = {}
    for broker, wanted in by_broker(dict.fromkeys(sorted(set(replicas)))).items():
        log_dirs = await describe_log_dirs(client, broker)
        current = {one: log_dir.path for log_dir in log_dirs for one in log_dir.current}
        future = {one: log_dir.path for log_dir in log_dirs for one in log_dir.future}
        for replica in wanted:
            one = replica.topic_partition
            found[replica] = ReplicaDirs(current.get(one), future.get(one))
    return found


async def alter_replica_log_dirs(
    client: AdminClient, broker: int, moves: Mapping[TopicPartition, str]
) -> dict[TopicPartition, int]:
    """Ask a broker to move replicas to directories; returns its error code for each."""
    targets: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for one, path in moves.items():
        targets[path][one.topic].append(one.partition)
    dirs = [
        {
            "path": path,
            "topics": [{"name": name, "partitions": some} for name, some in topics.items()],
        }
        for path, topics in targets.items()
    ]
    response = await client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, {"dirs": dirs}, broker)
    return {
        TopicPartition(topic.topic_name, one.partition_index): int(one.error_code)
        for topic in response.results
        for one in topic.partitions
    }


async def describe_log_dir_states(
    client: AdminClient, broker: int | None, timeout_s: float | None = None
) -> Sequence[LogDirStateEntry]:
    """Ask a broker for the ids, states and conditions of its directories; only ours tell them.

    Raises:
        UnsupportedRequestError: the broker does not know the request, or went away.
        RequestError: it refuses to say; CLUSTER_AUTHORIZATION_FAILED at a listener that is not for
            brokers.
    """
    values: dict[str, Any] = {}
    key = ApiKey.DESCRIBE_LOG_DIR_STATES
    answer = await client.call(key, values, broker, timeout_s=timeout_s)
    check(answer)
    found: Sequence[LogDirStateEntry] = answer.log_dirs
    return found


def with_states(
    log_dirs: Iterable[DescribedLogDir], states: Iterable[LogDirStateEntry]
) -> tuple[DescribedLogDir, ...]:
    """Return directories with what our brokers alone tell of them; pure."""
    by_path = {one.path: one for one in states}
    return tuple(
        replace(
            log_dir,
            state=one.state,
            conditions=one.conditions,
            cause=one.cause or "",
            directory_id="" if one.directory_id is None else kafka_uuid.to_text(one.directory_id),
        )
        if (one := by_path.get(log_dir.path))
        else log_dir
        for log_dir in log_dirs
    )


async def revive_log_dir(
    client: AdminClient, broker: int | None, path: str, timeout_s: float
) -> ReviveLogDirResponse:
    """Ask one of our brokers to bring a repaired directory back online.

    Args:
        client: The cluster.
        broker: The broker that has the directory; None for the one that was reached first.
        path: The directory, as in the broker's `log.dirs`.
        timeout_s: Longest wait for the answer. The broker goes on when it is over: the recovery of
            many logs may take minutes.

    Returns:
        The answer; without an error in it the directory is online, and its replicas follow.

    Raises:
        UnsupportedRequestError: the broker does not know the request, or went away.
    """
    key = ApiKey.REVIVE_LOG_DIR
    answer: ReviveLogDirResponse = await client.call(
        key, {"path": path}, broker, timeout_s=timeout_s
    )
    return answer
