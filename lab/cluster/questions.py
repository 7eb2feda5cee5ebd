"""Questions to a running cluster over the Kafka protocol: leaders, replicas, directories."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from jbodlab.cli.lab_state import NodeState
from jbodlab.kafka_admin import client
from jbodlab.kafka_admin.client import AdminClient
from jbodlab.kafka_admin.errors import AdminError, check
from jbodlab.kafka_admin.log_dirs import (
    DescribedLogDir,
    describe_log_dir_states,
    describe_log_dirs,
    with_states,
)
from jbodlab.kafka_admin.offsets import (
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Offset,
    offsets_at,
)
from jbodlab.kafka_admin.properties import AdminProperties
from jbodlab.kafka_admin.quorum import Quorum, describe_quorum
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.kafka_wire.describe_log_dir_states import LogDirStateEntry
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import Address
from jbodlab.picture.cluster_picture import PartitionPicture
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from lab.cluster import security

T = TypeVar("T")
CLIENT_ID = "jbodlab"
ANY_LENGTH = -1
"""Of transactions: also of those that have ended."""
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")

NO_ANSWER = (AdminError,)
"""Errors that end a question to a broker when there is no answer, or a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster as one broker tells clients."""

    broker_ids: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionPicture]

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


async def connect(node: NodeState, timeout_s: float) -> AdminClient:
    """Connect to a broker, which alone is asked, and once; the caller closes the client.

    Raises:
        AdminError: it does not answer.
    """
    return await _connect((node.host, node.port), security.of_node(node), timeout_s)


async def _connect(address: Address, way: ClientSecurity | None, timeout_s: float) -> AdminClient:
    properties = AdminProperties(
        security=way,
        client_id=CLIENT_ID,
        request_timeout_ms=round(timeout_s * 1000),
        patience_s=0,
    )
    return await client.connect([address], properties)


def ask(
    servers: Sequence[Address],
    way: ClientSecurity | None,
    question: Callable[[AdminClient], Coroutine[Any, Any, T]],
) -> T:
    """Ask a cluster, with the patience of commands, where no event loop runs.

    Args:
        servers: Addresses of brokers.
        way: How they are reached; None where they are open.
        question: Asks.

    Raises:
        AdminError: no broker answers, or the cluster refuses.
    """

    async def asked() -> T:
        async with client.opened(servers, AdminProperties(security=way)) as connected:
            return await question(connected)

    return asyncio.run(asked())


async def cluster_view(asked: AdminClient, timeout_s: float) -> ClusterView:
    """Ask for all brokers and topics; raises AdminError."""
    values = {"topics": None, "allow_auto_topic_creation": False}
    response = await asked.call(ApiKey.METADATA, values, timeout_s=timeout_s)
    return ClusterView(
        broker_ids=frozenset(int(broker.node_id) for broker in response.brokers),
        partitions={
            TopicPartition(topic.name, partition.partition_index): PartitionPicture(
                leader=partition.leader_id,
                replicas=partition.replica_nodes,
                isr=partition.isr_nodes,
                offline=partition.offline_replicas,
            )
            for topic in response.topics
            for partition in topic.partitions
        },
    )


async def log_dirs(
    asked: AdminClient, timeout_s: float, *, are_ours: bool = False
) -> list[DescribedLogDir]:
    """Ask a broker for its directories and all that lies in them.

    Args:
        asked: The broker.
        timeout_s: For each answer.
        are_ours: Whether it is asked for states, conditions and causes as well. Apache Kafka's
            brokers do not know that request, and log a stack trace.

    Raises:
        AdminError: there is no answer.
    """
    found = await describe_log_dirs(asked, None, timeout_s)
    states = await describe_log_dir_states(asked, None, timeout_s) if are_ours else ()
    return list(with_states(found, states))


async def open_transactions(
    asked: AdminClient, longer_than_ms: int, timeout_s: float
) -> list[OpenTransaction]:
    """Ask a broker for the transactions that it coordinates and that are open for so long.

    Raises:
        AdminError: it refuses to say, too.
    """
    return [
        OpenTransaction(
            transactional_id=str(one.transactional_id),
            producer_id=int(one.producer_id),
            state=one.transaction_state,
        )
        for one in await _transactions(asked, OPEN_STATES, longer_than_ms, timeout_s)
    ]


async def transactional_ids(asked: AdminClient, timeout_s: float) -> list[str]:
    """Ask a broker for the ids that it coordinates; raises as `open_transactions`."""
    found = await _transactions(asked, (), ANY_LENGTH, timeout_s)
    return [str(one.transactional_id) for one in found]


async def _transactions(
    asked: AdminClient, states: Sequence[str], longer_than_ms: int, timeout_s: float
) -> Sequence[Any]:
    values = {"state_filters": states, "duration_filter": longer_than_ms}
    answer = await asked.call(ApiKey.LIST_TRANSACTIONS, values, timeout_s=timeout_s)
    check(answer)
    found: Sequence[Any] = answer.transaction_states
    return found


async def offsets(
    asked: AdminClient, partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, Offsets]:
    """Ask a broker how far partitions can be read; those that it does not lead are left out."""
    # The last stable offset first: it is never behind a high watermark that is older.
    stable, ends = [
        {
            place: found.offset
            for place, found in (
                await offsets_at(asked, None, partitions, LATEST, isolation, timeout_s)
            ).items()
            if isinstance(found, Offset)
        }
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED)
    ]
    return {one: Offsets(stable[one], ends[one]) for one in stable.keys() & ends.keys()}


async def once(
    node: NodeState, timeout_s: float, question: Callable[[AdminClient], Awaitable[T]]
) -> T:
    """Ask one broker over a connection of its own; raises AdminError."""
    with contextlib.closing(await connect(node, timeout_s)) as asked:
        return await question(asked)


async def addresses(first: str, timeout_s: float, client_file: str = "") -> dict[int, Address]:
    """Ask the broker at `host:port` for all brokers; raises AdminError."""
    (address,) = client.bootstrap_servers(first)
    way = security.client(client_file).security if client_file else None
    with contextlib.closing(await _connect(address, way, timeout_s)) as asked:
        return {one.id: (one.host, one.port) for one in await asked.brokers()}


async def ask_cluster_view(node: NodeState, timeout_s: float) -> ClusterView | None:
    """Ask one broker over a connection of its own; None if it does not answer."""
    with contextlib.suppress(*NO_ANSWER):
        return await once(node, timeout_s, lambda asked: cluster_view(asked, timeout_s))
    return None


async def ask_quorum(node: NodeState, timeout_s: float) -> Quorum | None:
    """Ask for the controllers by one broker; None if there is no answer."""
    with contextlib.suppress(*NO_ANSWER):
        return await once(node, timeout_s, lambda asked: describe_quorum(asked, timeout_s))
    return None


async def ask_log_dirs(
    node: NodeState, timeout_s: float, *, are_ours: bool = False
) -> list[DescribedLogDir] | None:
    """Ask one broker, as `log_dirs`, over a connection of its own; None if it does not answer."""
    with contextlib.suppress(*NO_ANSWER):
        return await once(
            node, timeout_s, lambda asked: log_dirs(asked, timeout_s, are_ours=are_ours)
        )
    return None


async def log_dir_states(node: NodeState, timeout_s: float) -> Sequence[LogDirStateEntry]:
    """Ask one of our brokers for its directories in its own words; raises AdminError."""
    return await once(
        node, timeout_s, lambda asked: describe_log_dir_states(asked, None, timeout_s)
    )


def quorum(nodes: Sequence[NodeState], timeout_s: float) -> Quorum | None:
    """Ask several brokers at once for the controllers, where no event loop runs.

    Returns:
        The answer of the first one that gives one; None where none does, as no controller is
        active.
    """

    async def asked() -> list[Quorum | None]:
        return await asyncio.gather(*(ask_quorum(node, timeout_s) for node in nodes))

    return next((one for one in asyncio.run(asked()) if one is not None), None)


def view(node: NodeState, timeout_s: float) -> ClusterView | None:
    """Ask a broker, as `ask_cluster_view`, where no event loop runs."""
    return asyncio.run(ask_cluster_view(node, timeout_s))
