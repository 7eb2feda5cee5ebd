"""Upkeep of transactions without their producers: markers, timeouts, expiry."""

from __future__ import annotations

from collections.abc import Iterable

from broker.transactions.decision import MarkersDue
from broker.transactions.transaction import EPOCH_MAX, PREPARED, Transaction, TransactionState
from jbodlab.vocabulary.ids import TopicPartition


def markers_due(
    name: str, transaction: Transaction, partitions: tuple[TopicPartition, ...]
) -> MarkersDue:
    """Return the markers of a prepared transaction in some of its partitions.

    With version 2, leaders take a marker in a later epoch than that of the transaction only, so
    that a late one does not end the next transaction. The last epoch cannot be bumped, and no
    client begins a transaction in it: its markers are those of the first version.
    """
    return MarkersDue(
        transactional_id=name,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        committed=transaction.state is TransactionState.PREPARE_COMMIT,
        transaction_version=(
            0 if transaction.producer_epoch == EPOCH_MAX else transaction.transaction_version
        ),
        partitions=partitions,
    )


class OpenTimes:
    """How long open transactions have been open.

    The written start is by the clock of the coordinator that began the transaction. If that clock
    was ahead of this one, the time runs from the first check.
    """

    def __init__(self) -> None:
        self._first_check_ms: dict[tuple[str, int], int] = {}

    def late(self, transactions: Iterable[tuple[str, Transaction]], now_ms: int) -> list[str]:
        """Return the open transactions that take too long.

        Args:
            transactions: All open ones, each with its transactional id.
            now_ms: Wall clock.
        """
        former, found = self._first_check_ms, []
        self._first_check_ms = {}
        for name, each in transactions:
            started_ms = each.started_ms
            if started_ms > now_ms:
                key = name, started_ms
                started_ms = self._first_check_ms[key] = min(now_ms, former.get(key, now_ms))
            if started_ms + each.timeout_ms < now_ms:
                found.append(name)
        return found


def is_unused(transaction: Transaction, before_ms: int) -> bool:
    """Return whether nothing is open, and nothing has changed since a time."""
    is_idle = transaction.state is not TransactionState.ONGOING
    return is_idle and transaction.state not in PREPARED and transaction.updated_ms < before_ms


def unused(transactions: Iterable[tuple[str, Transaction]], before_ms: int) -> tuple[str, ...]:
    """Return the transactional ids that are unused since a time."""
    return tuple(name for name, each in transactions if is_unused(each, before_ms))
