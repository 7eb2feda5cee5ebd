"""How a producer ends its transaction: EndTxn (KIP-98, KIP-890).

With version 2 each end gives the producer another epoch, so a request that is repeated, because the
answer was lost, is known by the epoch before. An abort of nothing is one, too: the client cannot
know whether a partition was added.

Source: `kafka.coordinator.transaction.TransactionCoordinator.endTransaction`.
"""

from __future__ import annotations

from broker.transactions.requests import EndTransaction, FreshProducerIdNeeded
from broker.transactions.transaction import (
    COMPLETE,
    EPOCH_BUMP_FROM,
    EPOCH_MAX,
    EXHAUSTED,
    NO_ID,
    PREPARED,
    Transaction,
    TransactionState,
    prepared,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.producer import Producer


def ended(
    request: EndTransaction, before: Transaction | None, is_pending: bool, now_ms: int
) -> Transaction | Producer | FreshProducerIdNeeded:
    """Return the next state of a transaction that its producer ends.

    Args:
        request: The producer's wish.
        before: The written state.
        is_pending: Whether a transition is in progress.
        now_ms: Wall clock.

    Returns:
        The prepared transaction; the producer if the transaction has ended so already.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
            INVALID_TXN_STATE.
    """
    if before is None:
        if is_pending:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_bumping = request.transaction_version >= EPOCH_BUMP_FROM
    is_busy = is_pending or before.state in PREPARED
    if is_bumping and is_busy:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    has_new_id = is_bumping and _has_new_id(request, before)
    if request.producer_id != before.producer_id and not has_new_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_repeated = is_bumping and (has_new_id or _has_new_epoch(request, before))
    if request.producer_epoch != before.producer_epoch and not is_repeated:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if is_busy:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if before.state is not TransactionState.ONGOING:
        is_same = before.state is (
            TransactionState.COMPLETE_COMMIT
            if request.committed
            else TransactionState.COMPLETE_ABORT
        )
        if is_same and (is_repeated or not is_bumping):
            return before.producer
        if is_repeated or not is_bumping or request.committed:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    if not is_bumping or not before.is_exhausted:
        return prepared(before, request.committed, request.transaction_version, now_ms)
    if request.fresh_producer_id is None:
        return FreshProducerIdNeeded()
    return prepared(
        before, request.committed, request.transaction_version, now_ms, request.fresh_producer_id
    )


def next_producer(after: Transaction) -> Producer:
    """Return the producer that goes on once a prepared transaction is complete."""
    if after.next_producer_id == NO_ID:
        return after.producer
    return Producer(after.next_producer_id, 0)


def _has_new_id(request: EndTransaction, before: Transaction) -> bool:
    """Whether the producer has not heard that its id is another one."""
    return (
        before.state in COMPLETE
        and request.producer_id == before.previous_producer_id
        and request.producer_id != before.producer_id
        and request.producer_epoch == EXHAUSTED
        and before.producer_epoch == 0
    )


def _has_new_epoch(request: EndTransaction, before: Transaction) -> bool:
    """Whether the producer has not heard that its epoch is another one.

    A producer whose transaction was aborted because it took too long, or was fenced, may abort it
    as well. It goes on with the epoch of that abort, which nobody else was given. A commit of it is
    late, but its producer is not another one.
    """
    epoch = before.producer_epoch
    if before.state not in COMPLETE or request.producer_epoch != epoch - 1 or epoch == EPOCH_MAX:
        return False
    return before.last_producer_epoch == request.producer_epoch or before.is_bumped_by_abort
