"""What happens to transactions without their producers: markers, timeouts, expiry."""

from __future__ import annotations

from collections.abc import Mapping

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


def is_late(transaction: Transaction, now_ms: int) -> bool:
    """Return whether an open transaction takes too long."""
    return transaction.started_ms + transaction.timeout_ms < now_ms


def is_unused(transaction: Transaction, before_ms: int) -> bool:
    """Return whether nothing is open, and nothing has changed since a time."""
    is_idle = transaction.state is not TransactionState.ONGOING
    return is_idle and transaction.state not in PREPARED and transaction.updated_ms < before_ms


def unused(transactions: Mapping[str, Transaction], before_ms: int) -> tuple[str, ...]:
    """Return the transactional ids that are unused since a time."""
    return tuple(name for name, each in transactions.items() if is_unused(each, before_ms))
