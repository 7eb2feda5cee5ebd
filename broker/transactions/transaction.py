"""The transaction of one transactional id: its states, and what each step makes of it.

    Empty, CompleteCommit, CompleteAbort -> Ongoing         a partition is added
    Ongoing -> PrepareCommit -> CompleteCommit              markers are written in between
    Ongoing -> PrepareAbort -> CompleteAbort
    Empty, CompleteCommit, CompleteAbort -> Empty           a producer begins
    Empty, CompleteCommit, CompleteAbort -> PrepareAbort    version 2: nothing was added

A fence ends a transaction against the will of its producer: the epoch is bumped, and no client is
given that epoch. From version 2 on each end of a transaction bumps the epoch.

Source: `org.apache.kafka.coordinator.transaction.TransactionMetadata`, KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from jbodlab.transaction_records.records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
    TransactionRecord,
)
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.vocabulary.producer import Producer

NO_ID = -1
NO_EPOCH = -1
NO_TIME_MS = -1

EPOCH_MAX = 32_767
"""Never given to a client, so that a fence is always possible."""
EXHAUSTED = EPOCH_MAX - 1
"""From this epoch on the next one is that of a new producer id."""

EPOCH_BUMP_FROM = 2
"""The transaction.version from which each end of a transaction bumps the epoch (KIP-890)."""


class TransactionState(IntEnum):
    """States under the numbers of the record; the last two are never stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name in responses to clients."""
        return "".join(word.capitalize() for word in self.name.split("_"))


PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
"""Decided; markers are being written."""
COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

_STORED: Mapping[int, TransactionState] = MappingProxyType(
    {
        state.value: state
        for state in TransactionState
        if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
    }
)


class Transaction(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The producer of a transactional id, and its transaction.

    Attributes:
        previous_producer_id: The id before the last change.
        next_producer_id: The id from the end of the transaction on; -1 for the same.
        last_producer_epoch: The epoch before, if the producer itself asked for the present one;
            -1 otherwise.
        partitions: Sorted.
        updated_ms: Never falls, so it may be ahead of the clock.
        started_ms: Wall clock of the coordinator that began it; -1 if nothing has begun.
        transaction_version: Version that the client speaks.
    """

    producer_id: int
    previous_producer_id: int
    next_producer_id: int = NO_ID
    producer_epoch: int
    last_producer_epoch: int = NO_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    updated_ms: int
    started_ms: int = NO_TIME_MS
    transaction_version: int = 0

    @property
    def producer(self) -> Producer:
        """The producer, in its epoch."""
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def is_bumped_by_abort(self) -> bool:
        """Whether an abort gave the present epoch, so that only its producer may go on with it."""
        return (
            self.state is TransactionState.COMPLETE_ABORT
            and self.transaction_version >= EPOCH_BUMP_FROM
            and self.producer_epoch < EPOCH_MAX
        )

    @property
    def is_exhausted(self) -> bool:
        """Whether the next epoch is that of a new producer id."""
        return self.producer_epoch >= EXHAUSTED


def created(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """Return what a transactional id begins with."""
    return Transaction(
        producer_id=producer_id,
        previous_producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )


def begun(
    before: Transaction, producer: Producer, last_epoch: int, timeout_ms: int, now_ms: int
) -> Transaction:
    """Return the state in which a producer begins, or begins anew."""
    return _changed(
        before,
        now_ms,
        state=TransactionState.EMPTY,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=(),
        started_ms=NO_TIME_MS,
    )


def with_partitions(
    before: Transaction, partitions: Iterable[TopicPartition], version: int, now_ms: int
) -> Transaction:
    """Return a transaction with more partitions; it begins with the first ones."""
    is_open = before.state is TransactionState.ONGOING
    return _changed(
        before,
        now_ms,
        state=TransactionState.ONGOING,
        partitions=tuple(sorted({*before.partitions, *partitions})),
        started_ms=before.started_ms if is_open else now_ms,
        transaction_version=version,
    )


def prepared(
    before: Transaction, commit: bool, version: int, now_ms: int, next_producer_id: int = NO_ID
) -> Transaction:
    """Return a transaction whose producer has decided how it ends.

    Args:
        before: The written state.
        commit: Whether it is committed; else it is aborted.
        version: The transaction.version of the request.
        now_ms: Wall clock.
        next_producer_id: A new id, if version 2 has no epoch left.
    """
    state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    is_open = before.state is TransactionState.ONGOING
    after = _changed(
        before,
        now_ms,
        state=state,
        next_producer_id=next_producer_id,
        started_ms=before.started_ms if is_open else now_ms,
        transaction_version=version,
    )
    if version < EPOCH_BUMP_FROM:
        return after
    epoch = min(before.producer_epoch + 1, EPOCH_MAX)
    return replace(after, producer_epoch=epoch, last_producer_epoch=before.producer_epoch)


def fenced(before: Transaction, by_epoch: int, version: int, now_ms: int) -> Transaction:
    """Return an open transaction that is aborted, and whose producer is refused from now on.

    Args:
        before: The written state.
        by_epoch: Epoch of the producer that wants it so; -1 for anybody else.
        version: The finalized transaction.version.
        now_ms: Wall clock.
    """
    after = prepared(before, False, version, now_ms)
    is_own = by_epoch == before.producer_epoch
    return replace(
        after,
        producer_epoch=min(before.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=by_epoch if is_own else NO_EPOCH,
    )


def completed(before: Transaction, now_ms: int) -> Transaction:
    """Return a transaction of which all markers are written."""
    is_commit = before.state is TransactionState.PREPARE_COMMIT
    after = _changed(
        before,
        now_ms,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=(),
        next_producer_id=NO_ID,
    )
    if before.next_producer_id == NO_ID:
        return after
    return replace(after, producer_id=before.next_producer_id, producer_epoch=0)


def _changed(before: Transaction, now_ms: int, **fields: object) -> Transaction:
    return replace(
        before,
        previous_producer_id=before.producer_id,
        updated_ms=max(now_ms, before.updated_ms),
        **fields,
    )


def to_record(
    transactional_id: str, transaction: Transaction | None, level: int
) -> TransactionRecord:
    """Return the record of a transactional id, of the version of a transaction.version."""
    key = TransactionLogKey(transactional_id=transactional_id)
    if transaction is None:
        return TransactionRecord(key, None)
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        partitions = tuple(
            TransactionPartitions(topic=topic, partition_ids=tuple(each.partition for each in some))
            for topic, some in groupby(transaction.partitions, lambda each: each.topic)
        )
    version = min(level, TransactionLogValue.HIGHEST_VERSION)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        previous_producer_id=transaction.previous_producer_id if version else NO_ID,
        next_producer_id=transaction.next_producer_id if version else NO_ID,
        client_transaction_version=transaction.transaction_version if version else 0,
    )
    return TransactionRecord(key, value, version)


def from_value(value: TransactionLogValue) -> Transaction:
    """Return what a record says.

    The record does not have the last epoch. After a transaction of version 2 it was one less.

    Raises:
        DecodeError: there is no such state.
    """
    state = _STORED.get(value.transaction_status)
    if state is None:
        raise DecodeError(f"unknown transaction status {value.transaction_status}")
    version, producer_id = value.client_transaction_version, value.producer_id
    is_bumped = version >= EPOCH_BUMP_FROM and state in (*PREPARED, *COMPLETE)
    partitions = [
        TopicPartition(each.topic, partition)
        for each in value.transaction_partitions or ()
        for partition in each.partition_ids
    ]
    # A coordinator may load a million of them: equal numbers are one object.
    is_same = value.previous_producer_id == producer_id
    return Transaction(
        producer_id=producer_id,
        previous_producer_id=producer_id if is_same else value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        last_producer_epoch=value.producer_epoch - 1 if is_bumped else NO_EPOCH,
        timeout_ms=_one_object(value.transaction_timeout_ms),
        state=state,
        partitions=tuple(sorted(partitions)) if partitions else (),
        updated_ms=value.transaction_last_update_timestamp_ms,
        started_ms=value.transaction_start_timestamp_ms,
        transaction_version=version,
    )


_IDLE_VALUE, _IDLE_VERSION_AT = struct.Struct(">2xqhibxqq3xq"), 47
_IS_IDLE = re.compile(
    rb"\x00\x01.{14}[\x00\x04\x05][\x00\x01].{16}(?:\x01\x00\x08.{8}|\x02\x00\x08.{8}\x02\x02..)",
    re.DOTALL,
).fullmatch
"""Whether a value of version 1 is that of a transaction that has ended or never began, and has the
fields that most have: the id of its producer before, and at most the version of its client."""


def idle_id(key: bytes, value: bytes | None) -> str | None:
    """Return the transactional id of a record that `from_idle` can read; None for any other."""
    if value is None or _IS_IDLE(value) is None or key[:2] != b"\0\0":
        return None
    if len(key) < 4 or int.from_bytes(key[2:4], "big", signed=True) != len(key) - 4:
        return None
    try:
        return key[4:].decode()
    except UnicodeDecodeError:
        return None


def from_idle(value: bytes) -> Transaction:
    """Return what a record says that `idle_id` has taken; it is as `from_value` says."""
    fields = _IDLE_VALUE.unpack_from(value)
    producer_id, epoch, timeout_ms, status, updated_ms, started_ms, previous_id = fields
    version = int.from_bytes(value[_IDLE_VERSION_AT:], "big", signed=True)
    state = _STORED[status]
    is_bumped = version >= EPOCH_BUMP_FROM and state in COMPLETE
    return Transaction(
        producer_id=producer_id,
        previous_producer_id=previous_id,
        producer_epoch=epoch,
        last_producer_epoch=epoch - 1 if is_bumped else NO_EPOCH,
        timeout_ms=timeout_ms,
        state=state,
        updated_ms=updated_ms,
        started_ms=started_ms,
        transaction_version=version,
    )


@lru_cache(maxsize=1 << 10)
def _one_object(number: int) -> int:
    return number
