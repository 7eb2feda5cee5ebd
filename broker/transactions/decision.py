"""Decisions of transactions, with fields besides those of `broker.coordination.core`."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from broker.coordination import core
from broker.coordination.core import Ticket
from broker.transactions.requests import AddPartitions
from broker.transactions.transaction import Transaction
from jbodlab.transaction_records.records import TransactionRecord
from jbodlab.vocabulary.ids import TopicPartition


class Unmarked(NamedTuple):
    """The partitions of a prepared transaction that lack their marker."""

    transactional_id: str
    partitions: tuple[TopicPartition, ...]


class TransactionChange(NamedTuple):
    """The next state of a transactional id; None removes the id."""

    transactional_id: str
    transaction: Transaction | None


class Addition(NamedTuple):
    """Partitions to be added, and who is owed the answer."""

    ticket: Ticket
    request: AddPartitions


class Waiting(NamedTuple):
    """A client's partitions that wait for the end of the transaction before; None: no more."""

    transactional_id: str
    addition: Addition | None


class TransactionDecision(core.Decision[TransactionRecord], frozen=True, kw_only=True):
    """Transactions to write, and how far the markers of prepared ones are."""

    changes: tuple[TransactionChange, ...] = ()
    """Changes by the records, with the epochs that these do not have."""
    unmarked: tuple[Unmarked, ...] = ()
    waiting: tuple[Waiting, ...] = ()


NOTHING = TransactionDecision()


class MarkersDue(msgspec.Struct, frozen=True, kw_only=True):
    """An effect: the markers of a transaction are to be written.

    The sender calls `TransactionCore.markers_written`, and never gives up.

    Attributes:
        producer_id: As it was during the transaction.
        producer_epoch: Of the markers.
        transaction_version: By which leaders check the epoch.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An event: transactions are decided, and markers follow."""


class TimedOut(msgspec.Struct, frozen=True, kw_only=True):
    """An event: transactions that took too long are decided, and markers follow."""


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """An event: the end of transactions is written."""

    transactional_ids: tuple[str, ...]


class Expired(msgspec.Struct, frozen=True, kw_only=True):
    """An event: ids were taken away, and these are next."""

    transactional_ids: tuple[str, ...]


class ExpiryWork(msgspec.Struct, frozen=True):
    """The event of the search for ids that have expired."""
