"""Committed batches in, published images out.

Each reader of the log runs a loader: it skips records that it has seen, refuses gaps, and publishes
the records of a metadata transaction only at its end. While a transaction is open, the loader keeps
its records, and the image stays at the offset before the transaction's begin.

Source: `org.apache.kafka.image.loader.MetadataBatchLoader`, KIP-868.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY, MetadataImage
from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from jbodlab.metadata.records.control_records import ControlRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import LeaderEpoch, Offset


class CommittedBatch(Protocol):
    """The fields of a batch that the loader reads, as `metadata.log.batches.MetadataBatch` has."""

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""

    @property
    def epoch(self) -> int:
        """Leader epoch in which the batch was appended."""

    @property
    def timestamp_ms(self) -> int:
        """Time of its append, ms since 1970."""

    @property
    def records(self) -> Sequence[tuple[int, VersionedRecord | ControlRecord]]:
        """Offset and record, in order."""


class MetadataLoader:
    """The state of a reader of the metadata log."""

    def __init__(self, image: MetadataImage = EMPTY) -> None:
        self.image = image
        """State of all records committed outside open transactions."""
        self.next_offset = image.offset + 1
        """Offset of the first record that was not loaded yet."""
        self._open: _OpenTransaction | None = None

    @property
    def transaction_is_open(self) -> bool:
        """Whether the log loaded so far ends inside a transaction; no snapshot may be made then."""
        return self._open is not None

    def load(self, batch: CommittedBatch) -> MetadataDelta | None:
        """Replay one batch; its records below ``next_offset`` are skipped.

        Returns:
            The changes that became visible, or None if there were none.

        Raises:
            ReplayError: there is a gap before the batch, a transaction marker is out of place, or
                a record does not fit. The loader's state is then the one before the call.
        """
        if batch.base_offset > self.next_offset:
            raise ReplayError(
                f"expected a batch at offset {self.next_offset}, got {batch.base_offset}"
            )
        if batch.last_offset < self.next_offset:
            return None
        delta = MetadataDelta(self.image)
        transaction = self._open
        if transaction is not None:
            transaction = _OpenTransaction(transaction.begin_offset, list(transaction.records))
        for offset, item in batch.records:
            if offset >= self.next_offset and isinstance(item, VersionedRecord):
                transaction = _step(delta, transaction, item.record, offset)
        self._publish(delta, transaction, batch)
        return None if delta.is_empty else delta

    def load_snapshot(
        self, records: Iterable[VersionedRecord], end_offset: int, epoch: int, timestamp_ms: int
    ) -> MetadataDelta:
        """Replace the whole state by that of a snapshot.

        Args:
            records: Data records of the snapshot.
            end_offset: First offset that the snapshot does not contain.
            epoch: Leader epoch of the record before it.
            timestamp_ms: Append time of that record.

        Returns:
            The differences from the former state.

        Raises:
            ReplayError: the snapshot contradicts itself.
        """
        fresh = MetadataDelta(EMPTY)
        for versioned in records:
            fresh.replay(versioned.record, end_offset - 1)
        image = fresh.apply(end_offset - 1, epoch, timestamp_ms)
        delta = MetadataDelta.between(self.image, image)
        self.image = image
        self.next_offset = end_offset
        self._open = None
        return delta

    def _publish(
        self,
        delta: MetadataDelta,
        transaction: _OpenTransaction | None,
        batch: CommittedBatch,
    ) -> None:
        visible = batch.last_offset if transaction is None else transaction.begin_offset - 1
        if visible >= batch.base_offset:
            epoch, timestamp_ms = batch.epoch, batch.timestamp_ms
        else:
            epoch, timestamp_ms = self.image.epoch, self.image.timestamp_ms
        if delta.is_empty:
            self.image = replace(
                self.image,
                offset=Offset(visible),
                epoch=LeaderEpoch(epoch),
                timestamp_ms=timestamp_ms,
            )
        else:
            self.image = delta.apply(visible, epoch, timestamp_ms)
        self.next_offset = batch.last_offset + 1
        self._open = transaction


class _OpenTransaction:
    """Records since a BeginTransactionRecord."""

    __slots__ = ("begin_offset", "records")

    def __init__(self, begin_offset: int, records: list[tuple[int, Record]]) -> None:
        self.begin_offset = begin_offset
        self.records = records


def _step(
    delta: MetadataDelta, transaction: _OpenTransaction | None, record: Record, offset: int
) -> _OpenTransaction | None:
    """Replay one record; returns the transaction that is open afterwards."""
    if isinstance(record, BeginTransactionRecord):
        if transaction is not None:
            raise ReplayError(
                f"transaction begins at offset {offset} inside the one of offset "
                f"{transaction.begin_offset}"
            )
        return _OpenTransaction(offset, [])
    if isinstance(record, EndTransactionRecord | AbortTransactionRecord):
        if transaction is None:
            raise ReplayError(f"{record.NAME} at offset {offset} outside a transaction")
        if isinstance(record, EndTransactionRecord):
            for inner_offset, inner in transaction.records:
                delta.replay(inner, inner_offset)
        return None
    if transaction is not None:
        transaction.records.append((offset, record))
    else:
        delta.replay(record, offset)
    return transaction
