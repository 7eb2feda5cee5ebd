"""What the lab asks a running cluster over the Kafka protocol: leaders, replicas, directories."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from jbodlab.cli.lab_state import NodeState
from jbodlab.kafka_wire.api_table import item_class, request_class
from jbodlab.kafka_wire.describe_log_dir_states import API_KEY as DESCRIBE_LOG_DIR_STATES
from jbodlab.kafka_wire.describe_log_dir_states import DescribeLogDirStatesRequest
from jbodlab.peers.client import KafkaConnection
from jbodlab.vocabulary.errors import DecodeError, KafkaError
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from lab.cluster import security

METADATA, METADATA_VERSION = 3, 12
LIST_OFFSETS, LIST_OFFSETS_VERSION = 2, 7
LIST_TRANSACTIONS, LIST_TRANSACTIONS_VERSION = 66, 1
DESCRIBE_LOG_DIRS, DESCRIBE_LOG_DIRS_VERSION = 35, 4
CLIENT_ID = "jbodlab"
ANY_LENGTH = -1
"""Of transactions: also of those that have ended."""
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")

NO_ANSWER = (TimeoutError, ConnectionError, DecodeError, KafkaError)
"""What a question to a broker ends with when there is no answer, or a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as a broker tells clients; leader -1 if there is none."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster as one broker tells clients."""

    broker_ids: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionView]

    @property
    def has_transactions(self) -> bool:
        """Whether somebody has begun a transaction, ever."""
        return any(partition.topic == TRANSACTION_STATE_TOPIC for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has not ended.

    Attributes:
        state: `Ongoing`, `PrepareCommit` or `PrepareAbort`.
    """

    transactional_id: str
    producer_id: int
    state: str


class Offsets(NamedTuple):
    """How far a partition can be read: by readers of committed records, and by all others."""

    last_stable: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirView:
    """One log directory of a broker.

    Attributes:
        error: Name of the error for an offline directory, else empty.
        sizes: Bytes of each replica that lies in it.
        futures: Bytes of each replica that is on its way into it.
        total_bytes: Size of its file system; -1 where that is not told.
        usable_bytes: What of it may still be written; -1 where that is not told.
        conditions: `FULL`, `SLOW`; only our brokers tell.
        cause: Why it is offline; only our brokers tell.
    """

    path: str
    error: str
    sizes: Mapping[TopicPartition, int]
    futures: Mapping[TopicPartition, int] = field(default_factory=dict)
    total_bytes: int = -1
    usable_bytes: int = -1
    conditions: tuple[str, ...] = ()
    cause: str = ""


async def connect(node: NodeState, timeout_s: float) -> KafkaConnection:
    """Connect to a broker; raises as `KafkaConnection.open`."""
    return await KafkaConnection.open(
        node.host,
        node.port,
        client_id=CLIENT_ID,
        timeout_s=timeout_s,
        security=security.of_node(node),
    )


async def cluster_view(connection: KafkaConnection, timeout_s: float) -> ClusterView:
    """Ask for all brokers and topics; raises as `KafkaConnection.call`."""
    request = request_class(METADATA, METADATA_VERSION)(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    response = await connection.call(METADATA, METADATA_VERSION, request, timeout_s)
    return ClusterView(
        broker_ids=frozenset(int(broker.node_id) for broker in response.brokers),
        partitions={
            TopicPartition(topic.name, partition.partition_index): _partition(partition)
            for topic in response.topics
            for partition in topic.partitions
        },
    )


async def log_dirs(connection: KafkaConnection, timeout_s: float) -> list[LogDirView]:
    """Ask a broker for its directories and all that lies in them.

    Raises:
        ConnectionError: besides what `call` raises, the broker refuses to say.
    """
    request = request_class(DESCRIBE_LOG_DIRS, DESCRIBE_LOG_DIRS_VERSION)(topics=None)
    response = await connection.call(
        DESCRIBE_LOG_DIRS, DESCRIBE_LOG_DIRS_VERSION, request, timeout_s
    )
    if int(response.error_code):
        raise ConnectionError(f"it does not tell its directories: {response.error_code.name}")
    return [
        LogDirView(
            path=result.log_dir,
            error="" if int(result.error_code) == 0 else result.error_code.name.upper(),
            sizes=_sizes(result, are_future=False),
            futures=_sizes(result, are_future=True),
            total_bytes=int(result.total_bytes),
            usable_bytes=int(result.usable_bytes),
        )
        for result in response.results
    ]


async def log_dirs_with_states(connection: KafkaConnection, timeout_s: float) -> list[LogDirView]:
    """Ask one of our brokers for its directories, with their conditions and causes.

    Raises:
        ConnectionError: besides what `call` raises, the broker is none of ours.
    """
    found = await log_dirs(connection, timeout_s)
    request = DescribeLogDirStatesRequest()
    answer = await connection.call(DESCRIBE_LOG_DIR_STATES, 0, request, timeout_s)
    if int(answer.error_code):
        raise ConnectionError(f"it does not tell their states: {answer.error_code.name}")
    states = {entry.path: entry for entry in answer.log_dirs}
    return [
        replace(view, conditions=states[view.path].conditions, cause=states[view.path].cause or "")
        if view.path in states
        else view
        for view in found
    ]


async def open_transactions(
    connection: KafkaConnection, longer_than_ms: int, timeout_s: float
) -> list[OpenTransaction]:
    """Ask a broker for the transactions that it coordinates and that are open for so long.

    Raises:
        ConnectionError: besides what `call` raises, the broker refuses to say.
    """
    return [
        OpenTransaction(
            transactional_id=str(one.transactional_id),
            producer_id=int(one.producer_id),
            state=one.transaction_state,
        )
        for one in await _transactions(connection, OPEN_STATES, longer_than_ms, timeout_s)
    ]


async def transactional_ids(connection: KafkaConnection, timeout_s: float) -> list[str]:
    """Ask a broker for the ids that it coordinates; raises as `open_transactions`."""
    found = await _transactions(connection, (), ANY_LENGTH, timeout_s)
    return [str(one.transactional_id) for one in found]


async def _transactions(
    connection: KafkaConnection, states: Sequence[str], longer_than_ms: int, timeout_s: float
) -> Sequence[Any]:
    request = request_class(LIST_TRANSACTIONS, LIST_TRANSACTIONS_VERSION)(
        state_filters=tuple(states), producer_id_filters=(), duration_filter=longer_than_ms
    )
    answer = await connection.call(LIST_TRANSACTIONS, LIST_TRANSACTIONS_VERSION, request, timeout_s)
    if int(answer.error_code):
        raise ConnectionError(f"it does not tell its transactions: {answer.error_code.name}")
    found: Sequence[Any] = answer.transaction_states
    return found


async def offsets(
    connection: KafkaConnection, partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, Offsets]:
    """Ask a broker how far partitions can be read; those that it does not lead are left out."""
    # The last stable offset first: it is never behind a high watermark that is older.
    stable, ends = [
        await _ends(connection, partitions, isolation, timeout_s) for isolation in (1, 0)
    ]
    return {one: Offsets(stable[one], ends[one]) for one in stable.keys() & ends.keys()}


async def _ends(
    connection: KafkaConnection,
    partitions: Sequence[TopicPartition],
    isolation: int,
    timeout_s: float,
) -> dict[TopicPartition, int]:
    request_of = request_class(LIST_OFFSETS, LIST_OFFSETS_VERSION)
    topic_of = item_class(request_of, "topics")
    partition_of = item_class(topic_of, "partitions")
    by_topic = defaultdict(list)
    for one in partitions:
        by_topic[one.topic].append(
            partition_of(partition_index=one.partition, current_leader_epoch=-1, timestamp=-1)
        )
    request = request_of(
        replica_id=-1,
        isolation_level=isolation,
        topics=tuple(
            topic_of(name=name, partitions=tuple(some)) for name, some in by_topic.items()
        ),
    )
    answer = await connection.call(LIST_OFFSETS, LIST_OFFSETS_VERSION, request, timeout_s)
    return {
        TopicPartition(topic.name, one.partition_index): int(one.offset)
        for topic in answer.topics
        for one in topic.partitions
        if not int(one.error_code)
    }


async def addresses(
    first: str, timeout_s: float, client_file: str = ""
) -> dict[int, tuple[str, int]]:
    """Ask the broker at `host:port` for all brokers; raises as `connect` and `call`."""
    host, _, port = first.rpartition(":")
    node = NodeState(role="broker", node_id=-1, host=host, port=int(port), client_file=client_file)
    connection = await connect(node, timeout_s)
    try:
        request = request_class(METADATA, METADATA_VERSION)(
            topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        answer = await connection.call(METADATA, METADATA_VERSION, request, timeout_s)
    finally:
        connection.close()
    return {int(one.node_id): (str(one.host), int(one.port)) for one in answer.brokers}


async def ask_cluster_view(node: NodeState, timeout_s: float) -> ClusterView | None:
    """Ask one broker over a connection of its own; None if it does not answer."""
    with contextlib.suppress(*NO_ANSWER):
        connection = await connect(node, timeout_s)
        try:
            return await cluster_view(connection, timeout_s)
        finally:
            connection.close()
    return None


def views(nodes: Sequence[NodeState], timeout_s: float) -> list[ClusterView | None]:
    """Ask several brokers at once, where no event loop runs; None for each without an answer."""

    async def ask() -> list[ClusterView | None]:
        return list(await asyncio.gather(*(ask_cluster_view(node, timeout_s) for node in nodes)))

    return asyncio.run(ask())


async def ask_log_dirs(node: NodeState, timeout_s: float) -> list[LogDirView] | None:
    """Ask one broker over a connection of its own; None if it does not answer."""
    with contextlib.suppress(*NO_ANSWER):
        connection = await connect(node, timeout_s)
        try:
            return await log_dirs(connection, timeout_s)
        finally:
            connection.close()
    return None


async def ask_all_log_dirs(
    nodes: tuple[NodeState, ...], timeout_s: float
) -> dict[int, list[LogDirView] | None]:
    """Ask several brokers at once; by broker id."""
    answers = await asyncio.gather(*(ask_log_dirs(node, timeout_s) for node in nodes))
    return {node.node_id: answer for node, answer in zip(nodes, answers, strict=True)}


def _sizes(result: Any, *, are_future: bool) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, partition.partition_index): int(partition.partition_size)
        for topic in result.topics
        for partition in topic.partitions
        if bool(partition.is_future_key) is are_future
    }


def _partition(partition: Any) -> PartitionView:
    return PartitionView(
        leader=int(partition.leader_id),
        replicas=tuple(map(int, partition.replica_nodes)),
        isr=tuple(map(int, partition.isr_nodes)),
        offline=tuple(map(int, partition.offline_replicas)),
    )
