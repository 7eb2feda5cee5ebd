"""Requests to a transaction coordinator, and its answers.

An answer is the value named here, or a `KafkaError`. Fields are named after those of Kafka's
schemas.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from broker.transactions.transaction import NO_EPOCH, NO_ID, TransactionState
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition


class InitProducerId(msgspec.Struct, frozen=True, kw_only=True):
    """A producer begins; the answer is a `Producer`, or `FreshProducerIdNeeded`.

    Attributes:
        producer_id: With the epoch, what the producer has; -1 for a producer that has none.
        fresh_producer_id: An id that nobody has, if the coordinator asked for one.
    """

    transactional_id: str
    transaction_timeout_ms: int
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    fresh_producer_id: int | None = None


class AddPartitions(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions take part in the transaction; the answer is NONE for each.

    Attributes:
        transaction_version: 2 for a partition that its leader adds, 0 for one that a client adds.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


class VerifyPartitions(msgspec.Struct, frozen=True, kw_only=True):
    """Do partitions take part in the transaction? The answer is an `ErrorCode` for each.

    TRANSACTION_ABORTABLE says no.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class EndTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction ends; the answer is the `Producer` from then on, or `FreshProducerIdNeeded`.

    Attributes:
        transaction_version: 2 from version 5 of EndTxn on, 0 below.
        fresh_producer_id: An id that nobody has, if the coordinator asked for one.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int
    fresh_producer_id: int | None = None


class DescribeTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """The answer is a `DescribedTransaction` for each id."""

    transactional_ids: tuple[str, ...]


class ListTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """The answer is a tuple of `ListedTransaction`s; an empty filter lets everything pass.

    Attributes:
        duration_ms: Only transactions that began longer ago than this; negative for all.
        transactional_id_pattern: In the syntax of RE2; the whole id must match.
    """

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_ms: int = -1
    transactional_id_pattern: str | None = None


Request = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | DescribeTransactions
    | ListTransactions
)


class FreshProducerIdNeeded(msgspec.Struct, frozen=True):
    """The request is to be repeated with a producer id that nobody has."""


class ListedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id, and the state of its transaction."""

    transactional_id: str
    producer_id: int
    state: TransactionState


class DescribedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id in full; -1 and empty on an error.

    Attributes:
        partitions: While markers are written, those that still lack theirs.
    """

    transactional_id: str
    error_code: ErrorCode = ErrorCode.NONE
    state: TransactionState | None = None
    timeout_ms: int = -1
    start_time_ms: int = -1
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    partitions: Sequence[TopicPartition] = ()
