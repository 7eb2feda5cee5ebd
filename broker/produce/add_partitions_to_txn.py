"""Asks the coordinators of transactions whether a transaction has a partition.

Questions of one turn of the event loop go out together: one request for each broker. If the
coordinator is on this broker, it is a call.

Source: `kafka.server.AddPartitionsToTxnManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from broker.bounds.limits import LEADER_CONNECT_TIMEOUT_S, TRANSACTION_ASK_MAX_S
from broker.metadata.leader_calls import LeadingNode
from broker.metadata.metadata_cache import MetadataCache
from broker.produce.transaction_admission import Part, PartQuestion, coordinator_calls
from jbodlab.kafka_wire.api_table import ApiKey, item_class, request_class
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, BrokerId, TopicPartition

logger = logging.getLogger(__name__)

CLIENT_ID = "__transactions"
VERSION = 5
"""Of AddPartitionsToTxn between brokers."""
NO_ANSWER = ErrorCode.UNKNOWN_SERVER_ERROR
"""For a partition that a response leaves out."""

Answers = Mapping[TopicPartition, ErrorCode]


class CoordinatorLane(NamedTuple):
    """Where questions go together: to a broker, or about one transaction to the coordinator here.

    Attributes:
        transaction: Its id, the producer, and whether partitions are added; None for a broker.
    """

    broker_id: BrokerId
    transaction: tuple[str, int, int, bool] | None


class AddPartitionsToTxnManager:
    """Finds the coordinator of each transactional id; on the event loop.

    Attributes:
        calls: Asks whether a transaction has a partition, or has it added.

    Args:
        cache: Knows who leads, and where that broker is.
        broker_id: Ours.
        own: Asks the coordinator on this broker about parts of one transaction, which all add
            partitions or all do not; raises KafkaError, and so does its future.
        security: How other brokers are reached.
    """

    def __init__(
        self,
        cache: MetadataCache,
        broker_id: BrokerId,
        own: Callable[[Sequence[Part]], asyncio.Future[Answers]],
        security: ClientSecurity | None = None,
    ) -> None:
        self._cache = cache
        self._broker_id = broker_id
        self._own = own
        connect_s = min(LEADER_CONNECT_TIMEOUT_S, TRANSACTION_ASK_MAX_S)
        self._peers = PeerPool(CLIENT_ID, connect_s, security)
        self.calls = coordinator_calls(cache, self._coordinator, self._send)

    async def close(self) -> None:
        """Give up the open questions."""
        await self.calls.close()
        self._peers.close()

    def _coordinator(self, question: PartQuestion) -> LeadingNode[CoordinatorLane] | None:
        name = question.part.transaction.transactional_id
        found = self._cache.coordinator(TRANSACTION_STATE_TOPIC, name)
        if found is None:
            return None
        leader = found[1]
        if leader == self._broker_id:
            return LeadingNode(CoordinatorLane(leader, _transaction(question.part)), leader)
        return (
            None
            if self._cache.peer(leader) is None
            else LeadingNode(CoordinatorLane(leader, None), leader)
        )

    async def _send(
        self, lane: CoordinatorLane, questions: Sequence[PartQuestion]
    ) -> Sequence[ErrorCode]:
        parts = [question.part for question in questions]
        if lane.broker_id == self._broker_id:
            return await self._ask_own(parts)
        return await self._ask_other(lane.broker_id, parts)

    async def _ask_own(self, parts: Sequence[Part]) -> Sequence[ErrorCode]:
        try:
            future = self._own(parts)
            await asyncio.wait([future])
            if future.cancelled():
                return [ErrorCode.NOT_COORDINATOR] * len(parts)
            answers = future.result()
        except KafkaError as error:
            return [error.code] * len(parts)
        return [answers.get(part.topic_partition, NO_ANSWER) for part in parts]

    async def _ask_other(self, broker_id: BrokerId, parts: Sequence[Part]) -> Sequence[ErrorCode]:
        node = self._cache.peer(broker_id)
        if node is None:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(parts)
        response = await self._peers.call(
            (node.host, node.port),
            ApiKey.ADD_PARTITIONS_TO_TXN,
            VERSION,
            _request(parts),
            TRANSACTION_ASK_MAX_S,
        )
        whole = ErrorCode(int(response.error_code))
        if whole is not ErrorCode.NONE:
            logger.warning("the coordinator on broker %d refuses to answer: %s", broker_id, whole)
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(parts)
        found = {
            (each.transactional_id, topic.name, result.partition_index): ErrorCode(
                int(result.partition_error_code)
            )
            for each in response.results_by_transaction
            for topic in each.topic_results
            for result in topic.results_by_partition
        }
        return [
            found.get((part.transaction.transactional_id, *part.topic_partition), NO_ANSWER)
            for part in parts
        ]


def _transaction(part: Part) -> tuple[str, int, int, bool]:
    transaction = part.transaction
    return (
        transaction.transactional_id,
        part.producer_id,
        part.producer_epoch,
        transaction.adds_partitions,
    )


def _request(parts: Sequence[Part]) -> Any:
    request: Any = request_class(ApiKey.ADD_PARTITIONS_TO_TXN, VERSION)
    transaction: Any = item_class(request, "transactions")
    topic: Any = item_class(transaction, "topics")
    by_transaction: dict[tuple[str, int, int, bool], list[TopicPartition]] = {}
    for part in parts:
        by_transaction.setdefault(_transaction(part), []).append(part.topic_partition)
    return request(
        transactions=tuple(
            transaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                verify_only=not adds,
                topics=tuple(
                    topic(name=name, partitions=tuple(each.partition for each in some))
                    for name, some in groupby(sorted(names), lambda each: each.topic)
                ),
            )
            for (transactional_id, producer_id, producer_epoch, adds), names in (
                by_transaction.items()
            )
        )
    )
