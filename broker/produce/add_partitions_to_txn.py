"""Asks the coordinators of transactions whether a transaction has a partition.

Questions of one turn of the event loop go out together: one request for each broker. If the
coordinator is on this broker, it is a call.

Source: `kafka.server.AddPartitionsToTxnManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import msgspec

from broker.bounds.limits import LEADER_CONNECT_TIMEOUT_S, TRANSACTION_ASK_MAX_S
from broker.metadata.metadata_cache import BrokerNode, MetadataCache
from broker.produce.transaction_admission import Part
from jbodlab.kafka_wire.api_table import ApiKey, item_class, request_class
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, KafkaError
from jbodlab.vocabulary.ids import (
    NO_LEADER,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
)

logger = logging.getLogger(__name__)

CLIENT_ID = "__transactions"
VERSION = 5
"""Of AddPartitionsToTxn between brokers."""

Answers = Mapping[TopicPartition, ErrorCode]


class _Question(msgspec.Struct, frozen=True, eq=False):
    """A part, and who waits for the answer."""

    part: Part
    answer: asyncio.Future[ErrorCode]

    def settle(self, code: ErrorCode) -> None:
        if not self.answer.done():
            self.answer.set_result(code)


class AddPartitionsToTxnManager:
    """Finds the coordinator of each transactional id; on the event loop.

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
        self._loop = asyncio.get_running_loop()
        connect_s = min(LEADER_CONNECT_TIMEOUT_S, TRANSACTION_ASK_MAX_S)
        self._peers = PeerPool(CLIENT_ID, connect_s, security)
        self._unsent: list[_Question] = []
        # Not a set: whose turn comes first must not depend on where they lie in memory.
        self._tasks: dict[asyncio.Task[None], tuple[BrokerId, Sequence[_Question]]] = {}

    def ask(self, part: Part) -> asyncio.Future[ErrorCode]:
        """Ask whether a transaction has a partition, or have it added; the future never fails."""
        question = _Question(part, self._loop.create_future())
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(question)
        return question.answer

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Wait no longer for brokers that coordinate no more what they were asked about."""
        for broker_id, questions in self._tasks.values():
            for question in questions:
                if self._leader(question.part) != broker_id:
                    question.settle(ErrorCode.NOT_COORDINATOR)

    async def close(self) -> None:
        """Give up the open questions."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._peers.close()

    def _leader(self, part: Part) -> BrokerId:
        name = part.transaction.transactional_id
        found = self._cache.coordinator(TRANSACTION_STATE_TOPIC, name)
        return NO_LEADER if found is None else found[1]

    def _send(self) -> None:
        questions, self._unsent = self._unsent, []
        by_broker: dict[BrokerId, list[_Question]] = {}
        for question in questions:
            by_broker.setdefault(self._leader(question.part), []).append(question)
        for broker_id, some in by_broker.items():
            if broker_id == self._broker_id:
                for same in _by_transaction(some):
                    self._ask_own(same)
                continue
            node = self._cache.peer(broker_id)
            if node is None:
                for question in some:
                    question.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                continue
            task = self._loop.create_task(self._ask_other(node, some), name="ask coordinator")
            self._tasks[task] = broker_id, some
            task.add_done_callback(partial(_forget, self._tasks))

    def _ask_own(self, questions: Sequence[_Question]) -> None:
        try:
            future = self._own([question.part for question in questions])
        except KafkaError as error:
            for question in questions:
                question.settle(error.code)
            return

        def answered(future: asyncio.Future[Answers]) -> None:
            error = None if future.cancelled() else future.exception()
            if future.cancelled():
                _settle_all(questions, ErrorCode.NOT_COORDINATOR)
            elif isinstance(error, KafkaError):
                _settle_all(questions, error.code)
            elif error is not None:
                logger.error("the coordinator of a transaction failed", exc_info=error)
                _settle_all(questions, ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                _settle(questions, future.result())

        future.add_done_callback(answered)

    async def _ask_other(self, node: BrokerNode, questions: Sequence[_Question]) -> None:
        try:
            response = await self._peers.call(
                (node.host, node.port),
                ApiKey.ADD_PARTITIONS_TO_TXN,
                VERSION,
                _request(questions),
                TRANSACTION_ASK_MAX_S,
            )
        except (OSError, DecodeError) as error:
            logger.info("cannot ask the coordinator on broker %d: %s", node.id, error)
            _settle_all(questions, ErrorCode.NETWORK_EXCEPTION)
            return
        whole = ErrorCode(int(response.error_code))
        if whole is not ErrorCode.NONE:
            logger.warning("the coordinator on broker %d refuses to answer: %s", node.id, whole)
            _settle_all(questions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        found = {
            (each.transactional_id, topic.name, result.partition_index): ErrorCode(
                int(result.partition_error_code)
            )
            for each in response.results_by_transaction
            for topic in each.topic_results
            for result in topic.results_by_partition
        }
        for same in _by_transaction(questions):
            name = same[0].part.transaction.transactional_id
            _settle(
                same,
                {
                    TopicPartition(topic, index): code
                    for (transactional_id, topic, index), code in found.items()
                    if transactional_id == name
                },
            )


def _forget(
    tasks: dict[asyncio.Task[None], tuple[BrokerId, Sequence[_Question]]], task: asyncio.Task[None]
) -> None:
    _, questions = tasks.pop(task)
    # A task that is cancelled before its first step leaves nobody waiting either.
    _settle_all(questions, ErrorCode.NOT_COORDINATOR)


def _by_transaction(questions: Iterable[_Question]) -> Iterable[list[_Question]]:
    """Return the questions about the same producer, which all add or all do not, together."""
    found: dict[tuple[str, int, int, bool], list[_Question]] = {}
    for question in questions:
        part = question.part
        transaction = part.transaction
        key = (
            transaction.transactional_id,
            part.producer_id,
            part.producer_epoch,
            transaction.adds_partitions,
        )
        found.setdefault(key, []).append(question)
    return found.values()


def _settle(questions: Sequence[_Question], answers: Answers) -> None:
    for question in questions:
        code = answers.get(question.part.topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        question.settle(code)


def _settle_all(questions: Sequence[_Question], code: ErrorCode) -> None:
    for question in questions:
        question.settle(code)


def _request(questions: Sequence[_Question]) -> Any:
    request: Any = request_class(ApiKey.ADD_PARTITIONS_TO_TXN, VERSION)
    transaction: Any = item_class(request, "transactions")
    topic: Any = item_class(transaction, "topics")
    transactions = []
    for same in _by_transaction(questions):
        first = same[0].part
        names = sorted(question.part.topic_partition for question in same)
        transactions.append(
            transaction(
                transactional_id=first.transaction.transactional_id,
                producer_id=first.producer_id,
                producer_epoch=first.producer_epoch,
                verify_only=not first.transaction.adds_partitions,
                topics=tuple(
                    topic(name=name, partitions=tuple(each.partition for each in some))
                    for name, some in groupby(names, lambda each: each.topic)
                ),
            )
        )
    return request(transactions=tuple(transactions))
