"""How a transactional producer begins: InitProducerId (KIP-98, KIP-360, KIP-588).

Source: `kafka.coordinator.transaction.TransactionCoordinator.prepareInitProducerIdTransit`.
"""

from __future__ import annotations

from broker.transactions.requests import FreshProducerIdNeeded, InitProducerId
from broker.transactions.transaction import (
    EXHAUSTED,
    NO_EPOCH,
    NO_ID,
    PREPARED,
    Transaction,
    TransactionState,
    begun,
    created,
    fenced,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.producer import Producer


def check_init(request: InitProducerId, timeout_ms_max: int) -> None:
    """Check what can be said without the state.

    Raises:
        KafkaError: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT.
    """
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"producer id {request.producer_id} comes with epoch {request.producer_epoch}",
        )
    if not 0 < request.transaction_timeout_ms <= timeout_ms_max:
        raise KafkaError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"expected a transaction timeout of 1-{timeout_ms_max} ms, "
            f"got {request.transaction_timeout_ms}",
        )


def initialized(
    request: InitProducerId, before: Transaction | None, is_pending: bool, level: int, now_ms: int
) -> Transaction | FreshProducerIdNeeded:
    """Return the next state of a transactional id whose producer begins.

    An open transaction is aborted first; its state is PrepareAbort then, and the client repeats.

    Args:
        request: Checked.
        before: The written state.
        is_pending: Whether a transition is in progress.
        level: The finalized transaction.version.
        now_ms: Wall clock.

    Raises:
        KafkaError: CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
    """
    if is_pending or (before is not None and before.state in PREPARED):
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    fresh = request.fresh_producer_id
    if before is None:
        if fresh is None:
            return FreshProducerIdNeeded()
        return created(fresh, request.transaction_timeout_ms, now_ms)
    if request.producer_id != NO_ID and not _is_known(request, before):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if before.state is TransactionState.ONGOING:
        return fenced(before, request.producer_epoch, level, now_ms)
    epoch, last_epoch = before.producer_epoch, NO_EPOCH
    if request.producer_epoch in (NO_EPOCH, epoch):
        last_epoch = request.producer_epoch
        if before.is_exhausted:
            if fresh is None:
                return FreshProducerIdNeeded()
            producer = Producer(fresh, 0)
        else:
            producer = Producer(before.producer_id, epoch + 1)
    elif request.producer_epoch == before.last_producer_epoch or (
        before.is_bumped_by_abort and request.producer_epoch == epoch - 1
    ):
        # The answer was lost, or the producer's transaction took too long.
        producer, last_epoch = before.producer, request.producer_epoch
    else:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return begun(before, producer, last_epoch, request.transaction_timeout_ms, now_ms)


def _is_known(request: InitProducerId, before: Transaction) -> bool:
    """Whether a producer is the present one, or has not heard that its id has changed."""
    if request.producer_id == before.producer_id:
        return True
    has_changed = request.producer_id == before.previous_producer_id
    return has_changed and request.producer_epoch >= EXHAUSTED
