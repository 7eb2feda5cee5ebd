"""Whether a batch may go into a partition as a part of its producer's transaction (KIP-890).

The first batch of a transaction in a partition waits until the coordinator has said that the
transaction has the partition; with transaction version 2 the coordinator adds the partition then.
Later batches of the producer wait behind it. A coordinator that will soon answer otherwise is asked
again here, not by the client (`broker.clients.client_behaviour`). The coordinator may be gone or
hang: batches of other producers do not wait.

Source: `kafka.server.ReplicaManager.maybeSendPartitionsToTransactionCoordinator`,
`kafka.server.AddPartitionsToTxnManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from broker.bounds.limits import ADMISSION_RETRY_MAX_S
from broker.metadata.leader_calls import LeaderCalls, LeadingNode, Settled
from broker.metadata.metadata_cache import MetadataCache
from broker.replica.leading import Guard, LeaderState
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from broker.replica.waiting import BatchTransaction
from jbodlab.record_batch.record_batch import BatchHeader
from jbodlab.runtime.supervised import call_each
from jbodlab.storage.log.producer_state import NO_OFFSET
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

logger = logging.getLogger(__name__)

LaneT = TypeVar("LaneT")

Admitted = Guard | int
"""Why a batch may be appended: what the coordinator said, or the transaction that is open in the
log, by its first offset; -1 for a batch that is in the log already."""

NOT_ANSWERED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""The coordinator was not found, or does not know yet: it is asked again."""


class Part(NamedTuple):
    """One partition of the transaction of one producer."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    transaction: BatchTransaction


class PartQuestion(NamedTuple):
    """A part of a transaction that its coordinator is asked about.

    Attributes:
        leader: Of the partition.
        part: Which part.
        guard: Has the answer.
    """

    leader: LeaderState
    part: Part
    guard: Guard

    def is_final(self, code: ErrorCode) -> bool:
        """Return whether the coordinator will not soon answer otherwise."""
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            return not self.part.transaction.adds_partitions
        return code not in NOT_ANSWERED

    def again(self) -> Settled[ErrorCode] | None:
        """Begin anew; returns the answer if that is not possible."""
        if self.guard.is_ended and not self.part.transaction.adds_partitions:
            # The next transaction of the producer may have the same epoch: this batch is not of it.
            return Settled(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            # The marker of the transaction before may have come meanwhile, and ended the guard.
            self.leader.guards.begin(self.part.producer_id, self.guard)
        except KafkaError as error:
            return Settled(error.code)
        return None


def coordinator_calls(
    cache: MetadataCache,
    coordinator: Callable[[PartQuestion], LeadingNode[LaneT] | None],
    send: Callable[[LaneT, Sequence[PartQuestion]], Coroutine[Any, Any, Sequence[ErrorCode]]],
) -> LeaderCalls[LaneT, PartQuestion, ErrorCode]:
    """Return what asks coordinators, on whichever broker they are."""
    return LeaderCalls(
        cache,
        coordinator,
        send,
        PartQuestion.is_final,
        ErrorCode.NETWORK_EXCEPTION,
        again=PartQuestion.again,
    )


class TransactionAdmission:
    """Lets batches wait for their answers; on the event loop.

    Attributes:
        coordinators: Asks the coordinators; None in a broker that takes part in no transactions.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.coordinators: LeaderCalls[Any, PartQuestion, ErrorCode] | None = None

    def ask(self, leader: LeaderState, part: Part, answered: Callable[[Guard], None]) -> None:
        """Ask about the first batch of a transaction, or wait for an answer that is under way.

        Args:
            leader: Of the partition.
            part: The part of the transaction that is asked about.
            answered: Called once with the guard, which has the answer.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, a later epoch of the producer was asked about.
        """
        guard = leader.guards.of(part.producer_id, part.producer_epoch)
        if guard is None:
            guard = Guard(producer_epoch=part.producer_epoch)
            leader.guards.begin(part.producer_id, guard)
            guard.waiting.append(partial(answered, guard))
            settle = partial(self._settle, leader, part, guard)
            if self.coordinators is None:
                self._loop.call_soon(settle, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                return
            question = PartQuestion(leader, part, guard)
            self.coordinators.ask(question, settle, ADMISSION_RETRY_MAX_S)
        else:
            guard.waiting.append(partial(answered, guard))

    def admitted(self, partition: Partition, part: Part) -> asyncio.Future[None]:
        """Return a future of when a batch of a transaction may be appended by this broker itself.

        Returns:
            Its error is a `KafkaError`, as `admission` and `refusal` say.

        Raises:
            KafkaError: the same, or the replica does not lead.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        leader, log = partition.leader_log()
        if known_from(leader, log, part.producer_id, part.producer_epoch) is not None:
            future.set_result(None)
            return future

        def answered(guard: Guard) -> None:
            assert guard.answer is not None
            if future.done():
                return
            if guard.answer is ErrorCode.NONE:
                future.set_result(None)
            else:
                future.set_exception(refusal(guard.answer, part.transaction))

        self.ask(leader, part, answered)
        return future

    def _settle(self, leader: LeaderState, part: Part, guard: Guard, code: ErrorCode) -> None:
        guard.answer = code
        if code is not ErrorCode.NONE:
            leader.guards.drop(part.producer_id, guard)
        waiting, guard.waiting = guard.waiting, []
        call_each(waiting, f"the first batch of a transaction in {part.topic_partition}")


def admission(
    leader: LeaderState, log: PartitionLog, header: BatchHeader, before: Admitted | None = None
) -> Admitted | None:
    """Return why a transactional batch may be appended now; None if the coordinator is to be asked.

    Args:
        leader: Of the partition.
        log: Its log.
        header: Header of the batch.
        before: The result of this function for the batch before, or the guard it has waited for.

    Raises:
        KafkaError: INVALID_PRODUCER_EPOCH; TRANSACTION_ABORTABLE if a marker has ended the
            transaction since.
    """
    if log.producers.duplicate(header) is not None:
        return NO_OFFSET
    producer_id, epoch = header.producer_id, header.producer_epoch
    open_since = log.producers.open_since(producer_id, epoch)
    if isinstance(before, Guard):
        if before.is_ended:
            raise _late(header)
        if leader.guards.of(producer_id, epoch) is before:
            return before
        # Another leadership has begun since: it has no guards yet.
    elif before is not None:
        if before != open_since:
            raise _late(header)
        return before
    return known_from(leader, log, producer_id, epoch)


def known_from(
    leader: LeaderState, log: PartitionLog, producer_id: int, producer_epoch: int
) -> Admitted | None:
    """Return whence it is known that the transaction of a producer has a partition, if it is.

    Raises:
        KafkaError: INVALID_PRODUCER_EPOCH.
    """
    open_since = log.producers.open_since(producer_id, producer_epoch)
    if open_since != NO_OFFSET:
        return open_since
    guard = leader.guards.of(producer_id, producer_epoch)
    return guard if guard is not None and guard.answer is ErrorCode.NONE else None


def refusal(code: ErrorCode, transaction: BatchTransaction) -> KafkaError:
    """Return the error of a batch whose transaction does not have the partition.

    Args:
        code: The coordinator's error, or that of `admission`.
        transaction: The client's.
    """
    return KafkaError(told_for(code, transaction), _TEXTS.get(code, ""))


def told_for(code: ErrorCode, transaction: BatchTransaction) -> ErrorCode:
    """Return the code that a producer gets for the answer of a coordinator.

    Every producer tries again after NOT_ENOUGH_REPLICAS, without looking for another leader.
    """
    if code in NOT_ANSWERED:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if not transaction.knows_abortable:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.CONCURRENT_TRANSACTIONS if not transaction.adds_partitions:
            return ErrorCode.NOT_ENOUGH_REPLICAS
    return code


_TEXTS = {
    ErrorCode.TRANSACTION_ABORTABLE: "the partition is not in the transaction of the producer",
    ErrorCode.CONCURRENT_TRANSACTIONS: "the last transaction of the producer is being completed",
} | dict.fromkeys(NOT_ANSWERED, "the coordinator of the transaction did not answer")


def _late(header: BatchHeader) -> KafkaError:
    return KafkaError(
        ErrorCode.TRANSACTION_ABORTABLE,
        f"the transaction of producer {header.producer_id} was ended before its batch came",
    )
