"""Responses about transactions: ListTransactions, DescribeTransactions (KIP-664, KIP-994).

Source: `kafka.coordinator.transaction.TransactionStateManager.listTransactionStates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.clients.regular_expressions import compiled
from broker.transactions.requests import (
    DescribedTransaction,
    ListedTransaction,
    ListTransactions,
)
from broker.transactions.transaction import Transaction
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition


def listed(
    request: ListTransactions, committed: Iterable[tuple[str, Transaction]], now_ms: int
) -> Iterator[ListedTransaction | None]:
    """Return the transactions that pass all filters, each when it is asked for.

    There is None for each that does not pass: to look at a million takes seconds.

    Args:
        request: The filters.
        committed: Transactional ids, each with what is committed of it.
        now_ms: Wall clock.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    pattern = request.transactional_id_pattern
    regex = compiled(pattern) if pattern else None
    states = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)
    return (
        ListedTransaction(
            transactional_id=transactional_id, producer_id=each.producer_id, state=each.state
        )
        if (not states or each.state.title in states)
        and (not producer_ids or each.producer_id in producer_ids)
        and (request.duration_ms < 0 or now_ms - each.started_ms > request.duration_ms)
        and (regex is None or regex.fullmatch(transactional_id) is not None)
        else None
        for transactional_id, each in committed
    )


def described(
    transactional_id: str,
    found: Transaction | None,
    unmarked: tuple[TopicPartition, ...] | None,
) -> DescribedTransaction:
    """Return a transaction in full.

    Args:
        transactional_id: Whose it is.
        found: The committed state.
        unmarked: The partitions that still lack their marker, if markers are being written.
    """
    if not transactional_id:
        return DescribedTransaction(
            transactional_id=transactional_id, error_code=ErrorCode.INVALID_REQUEST
        )
    if found is None:
        return DescribedTransaction(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    return DescribedTransaction(
        transactional_id=transactional_id,
        state=found.state,
        timeout_ms=found.timeout_ms,
        start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        partitions=found.partitions if unmarked is None else unmarked,
    )
