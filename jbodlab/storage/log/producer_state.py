"""The state of each idempotent producer in a log, and the `.snapshot` files that keep it.

The state of a producer id holds its epoch, its last five batches, the start of its open transaction
and its last timestamp. With it a leader distinguishes a repeated batch from a new one, and a gap
from a batch in sequence. Sequences wrap from 2^31-1 to 0.

A snapshot file, big-endian:

    0   int16    version, 1
    2   uint32   CRC-32C of everything behind it
    6   int32    number of entries
    per entry, 46 bytes: int64 producer id, int16 epoch, int32 last sequence, int64 last offset,
    int32 offset delta, int64 timestamp, int32 coordinator epoch, int64 first offset of the open
    transaction or -1
    per earlier batch that is remembered, 32 bytes, oldest first: int64 producer id, int32 last
    sequence, int64 last offset, int32 offset delta, int64 timestamp
    per producer that is silent, 32 bytes: int64 producer id, int32 -1, int64 -1, int32 0, int64
    since when it is silent
    once, at the end, 32 bytes: int64 -1, int32 number of aborted transactions in the segment that
    ends here, int64 -1, int32 0, int64 -1

An entry names only the last batch. Kafka stops reading behind the last entry and knows no earlier
batch after a restart; it then refuses the first four of five batches that a client repeats. The
earlier batches follow the entries that Kafka reads, within the bytes that the CRC covers.

Nothing else tells that an index of aborted transactions is missing: a segment without any has no
such file. So each snapshot names the number of entries that the index of the segment before it has.

A producer is silent from its last append, never from the time of its records: a replay of history
has old timestamps, and timestamps of the future would keep the producer for ever. This code has no
clock, so the time of the first `expire` after an append counts as the time of the append; so does
the first `expire` after a start, if no snapshot has the time.

Source: `org.apache.kafka.storage.internals.log.ProducerStateManager`, `ProducerStateEntry`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import msgspec

from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import MAX_SEQUENCE, BatchHeader
from jbodlab.storage.log.transactions import ABORT, COMMIT, CompletedTransaction, Marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import CorruptRecordError, KafkaError

BATCHES_REMEMBERED_MAX = 5

SNAPSHOT_VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_EARLIER = struct.Struct(">qiqiq")
_CRC_START = 6
"""The first byte that the CRC of a snapshot covers."""

NO_OFFSET = -1
NO_SEQUENCE = -1
NO_EPOCH = -1
NO_PRODUCER = -1
"""In place of an id, in the record with the number of aborted transactions."""


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """Offset and timestamp of a batch that is in the log already."""

    base_offset: int
    last_offset: int
    timestamp: int


class ProducerBatch(msgspec.Struct, frozen=True, kw_only=True):
    """One remembered batch; `offset_delta` is last minus first offset."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one producer id."""

    epoch: int
    batches: tuple[ProducerBatch, ...] = ()
    """Oldest first, at most five, all of this epoch."""
    last_timestamp: int = -1
    coordinator_epoch: int = NO_EPOCH
    transaction_start: int = NO_OFFSET
    """First offset of the open transaction, -1 if none is open."""

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 without a batch in this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerState:
    """All producers of one log."""

    __slots__ = ("_entries", "_open", "_silent_since")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}
        """First offset of each open transaction by producer id, in the order of these offsets."""
        self._silent_since: dict[int, int] = {}
        """When `expire` first saw each producer without a new batch, in ms since 1970."""

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerState) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    @property
    def first_open_offset(self) -> int | None:
        """First offset of the oldest open transaction; None if none is open."""
        return next(iter(self._open.values()), None)

    @property
    def oldest_open_timestamp(self) -> int | None:
        """Timestamp of the last batch in the oldest open transaction; None if none is open."""
        oldest = next(iter(self._open), None)
        return None if oldest is None else self._entries[oldest].last_timestamp

    @property
    def entries(self) -> tuple[tuple[int, ProducerEntry], ...]:
        """The states of all producers, by id."""
        return tuple(sorted(self._entries.items()))

    def entry(self, producer_id: int) -> ProducerEntry | None:
        """Return the state of a producer."""
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader, *, begins_at_zero: bool = False) -> Duplicate | None:
        """Check a client's batch before it is appended; the state stays unchanged.

        Args:
            header: Header of the batch.
            begins_at_zero: Whether the first batch of a producer must have sequence 0, as each of
                its epochs begins with that (transaction version 2).

        Returns:
            Where the batch already is, if it is a repeated one; None if it may be appended.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, or INVALID_TXN_STATE
                for a batch that belongs to no transaction while one of the producer is open.
        """
        if header.producer_id < 0:
            return None
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # The producer is new or expired, or its data was deleted: any sequence may follow.
            if begins_at_zero and header.base_sequence:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"expected sequence 0 in the first batch of producer {header.producer_id}, "
                    f"got {header.base_sequence}",
                )
            return None
        duplicate = _duplicate(header, entry)
        if duplicate is not None:
            return duplicate
        _check_epoch(header.producer_id, header.producer_epoch, entry)
        _check_sequence(header, entry)
        if entry.transaction_start != NO_OFFSET and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open since offset "
                f"{entry.transaction_start}, but sent a batch that belongs to none",
            )
        return None

    def duplicate(self, header: BatchHeader) -> Duplicate | None:
        """Return where a batch already is, if it is one of the remembered ones."""
        entry = self._entries.get(header.producer_id)
        return None if entry is None else _duplicate(header, entry)

    def open_since(self, producer_id: int, producer_epoch: int) -> int:
        """Return where the open transaction of a producer in an epoch begins; -1 without one.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, the producer has a newer epoch.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return NO_OFFSET
        _check_epoch(producer_id, producer_epoch, entry)
        return entry.transaction_start if entry.epoch == producer_epoch else NO_OFFSET

    def needs_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, *, bumps_epoch: bool
    ) -> bool:
        """Check a marker of a coordinator before it is appended; the state stays unchanged.

        Args:
            producer_id: Whose transaction ends.
            producer_epoch: Epoch of the producer from the marker on.
            coordinator_epoch: Leader epoch of the coordinator's partition.
            bumps_epoch: Whether each end of a transaction bumps the epoch (transaction version 2).

        Returns:
            Whether it is to be appended. A marker that bumps the epoch and comes again is not, as
            the producer may have begun its next transaction in that epoch (KAFKA-19999).

        Raises:
            KafkaError: TRANSACTION_COORDINATOR_FENCED or INVALID_PRODUCER_EPOCH.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return True
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"epoch of the coordinator of producer {producer_id} is {coordinator_epoch}, which "
                f"is smaller than the last seen epoch {entry.coordinator_epoch}",
            )
        _check_epoch(producer_id, producer_epoch, entry)
        if not bumps_epoch or producer_epoch > entry.epoch:
            return True
        if entry.transaction_start == NO_OFFSET:
            return False
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} has begun another transaction in epoch {producer_epoch}",
        )

    def update(
        self, header: BatchHeader, marker: Marker | None = None
    ) -> CompletedTransaction | None:
        """Add a batch that is in the log; sequence and epoch are not checked.

        Args:
            header: Header of the batch.
            marker: Marker of a control batch.

        Returns:
            The transaction that the batch ended, if any.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        self._silent_since.pop(producer_id, None)
        if header.is_control:
            return self._end(header, marker)
        known = self._entries.get(producer_id)
        batches: tuple[ProducerBatch, ...] = ()
        coordinator_epoch = NO_EPOCH
        transaction_start = NO_OFFSET
        if known is not None:
            coordinator_epoch = known.coordinator_epoch
            transaction_start = known.transaction_start
            if known.epoch == header.producer_epoch:
                batches = known.batches
        batch = ProducerBatch(
            last_sequence=header.last_sequence,
            last_offset=header.last_offset,
            offset_delta=header.last_offset_delta,
            timestamp=header.max_timestamp,
        )
        batches = (*batches[-BATCHES_REMEMBERED_MAX + 1 :], batch)
        if header.is_transactional and transaction_start == NO_OFFSET:
            transaction_start = header.base_offset
            self._open[producer_id] = transaction_start
        self._entries[producer_id] = ProducerEntry(
            epoch=header.producer_epoch,
            batches=batches,
            last_timestamp=header.max_timestamp,
            coordinator_epoch=coordinator_epoch,
            transaction_start=transaction_start,
        )
        return None

    def _end(self, header: BatchHeader, marker: Marker | None) -> CompletedTransaction | None:
        """Add a control batch; one that compaction has emptied has no marker and no effect."""
        if not header.records_count or (marker is not None and marker.type not in (ABORT, COMMIT)):
            return None
        known = self._entries.get(header.producer_id)
        same = known is not None and known.epoch == header.producer_epoch
        self._entries[header.producer_id] = ProducerEntry(
            epoch=header.producer_epoch,
            batches=known.batches if known is not None and same else (),
            last_timestamp=header.max_timestamp,
            coordinator_epoch=NO_EPOCH if marker is None else marker.coordinator_epoch,
        )
        started = self._open.pop(header.producer_id, None)
        if started is None:
            return None
        return CompletedTransaction(
            header.producer_id,
            started,
            header.last_offset,
            marker is not None and marker.type == ABORT,
        )

    def last_stable_offset_at(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset right behind the marker of a transaction."""
        return next(iter(self._open.values()), completed.last_offset + 1)

    def can_go_back_to(self, end_offset: int) -> bool:
        """Return whether `go_back_to` would leave the state that there was at an offset.

        It would not if all remembered batches of a producer are behind the offset, and earlier
        batches, or batches of an earlier epoch, may exist. It would not either if a marker has
        left no batch, or if a marker may be behind the offset, which opens its transaction again.
        Only the log has these batches.
        """
        for entry in self._entries.values():
            if not entry.batches or entry.coordinator_epoch != NO_EPOCH:
                return False
            oldest = entry.batches[0]
            if oldest.last_offset >= end_offset and (oldest.first_sequence or entry.epoch):
                return False
        return True

    def go_back_to(self, end_offset: int) -> None:
        """Forget the batches behind an offset; see `can_go_back_to`."""
        for producer_id, entry in list(self._entries.items()):
            if not entry.batches or entry.batches[-1].last_offset < end_offset:
                continue
            left = tuple(batch for batch in entry.batches if batch.last_offset < end_offset)
            if not left:
                del self._entries[producer_id]
                self._open.pop(producer_id, None)
                self._silent_since.pop(producer_id, None)
                continue
            start = entry.transaction_start
            if start >= end_offset:
                start = NO_OFFSET
                self._open.pop(producer_id, None)
            self._entries[producer_id] = ProducerEntry(
                epoch=entry.epoch,
                batches=left,
                last_timestamp=left[-1].timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                transaction_start=start,
            )

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without an open transaction that were silent too long.

        To be called now and then: an append counts as if it were made at the next call.

        Args:
            now_ms: Milliseconds since 1970.
            expiration_ms: How long a producer may be silent.

        Returns:
            How many were forgotten.
        """
        expired = []
        for producer_id, entry in self._entries.items():
            # A clock that was set back must not make the silence begin in the future.
            since = min(self._silent_since.get(producer_id, now_ms), now_ms)
            self._silent_since[producer_id] = since
            if entry.transaction_start == NO_OFFSET and now_ms - since >= expiration_ms:
                expired.append(producer_id)
        for producer_id in expired:
            del self._entries[producer_id], self._silent_since[producer_id]
        return len(expired)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self._open.clear()
        self._silent_since.clear()

    def copy(self) -> ProducerState:
        """Return an independent copy."""
        other = ProducerState()
        other._entries = dict(self._entries)
        other._open = dict(self._open)
        other._silent_since = dict(self._silent_since)
        return other

    def encode(self, *, with_earlier: bool = False, aborted_count: int | None = None) -> bytes:
        """Return the content of a snapshot file.

        Args:
            with_earlier: Whether to add the earlier batches and the silent producers, which Kafka
                does not read.
            aborted_count: Number of transactions that were aborted in the segment that ends here;
                None to leave it out.
        """
        body = bytearray()
        for producer_id, entry in self._entries.items():
            last = entry.batches[-1] if entry.batches else None
            body += _ENTRY.pack(
                producer_id,
                entry.epoch,
                last.last_sequence if last else NO_SEQUENCE,
                last.last_offset if last else NO_OFFSET,
                last.offset_delta if last else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_start,
            )
        for producer_id, entry in self._entries.items() if with_earlier else ():
            for batch in entry.batches[:-1]:
                body += _EARLIER.pack(
                    producer_id,
                    batch.last_sequence,
                    batch.last_offset,
                    batch.offset_delta,
                    batch.timestamp,
                )
        for producer_id, since_ms in self._silent_since.items() if with_earlier else ():
            body += _EARLIER.pack(producer_id, NO_SEQUENCE, NO_OFFSET, 0, since_ms)
        if aborted_count is not None:
            body += _aborted_record(aborted_count)
        return _with_crc(struct.pack(">i", len(self._entries)) + body)

    @classmethod
    def decode(cls, path: Path, data: bytes) -> ProducerState:
        """Read the content of a snapshot file.

        Raises:
            CorruptRecordError: truncated, of another version, or its CRC is wrong.
        """
        end = _end_of_entries(path, data)
        state = cls()
        earlier: dict[int, list[ProducerBatch]] = {}
        for producer_id, sequence, offset, delta, timestamp in _EARLIER.iter_unpack(data[end:]):
            if producer_id == NO_PRODUCER:
                continue
            if sequence == NO_SEQUENCE:
                state._silent_since[producer_id] = timestamp
                continue
            earlier.setdefault(producer_id, []).append(
                ProducerBatch(
                    last_sequence=sequence,
                    last_offset=offset,
                    offset_delta=delta,
                    timestamp=timestamp,
                )
            )
        for producer_id, *fields in _ENTRY.iter_unpack(data[_HEAD.size : end]):
            before = tuple(earlier.get(producer_id, ()))
            state._entries[producer_id] = _entry(*fields, earlier=before)
        started = (
            (entry.transaction_start, producer_id)
            for producer_id, entry in state._entries.items()
            if entry.transaction_start != NO_OFFSET
        )
        state._open = {producer_id: start for start, producer_id in sorted(started)}
        return state


class ToldAborted(NamedTuple):
    """A snapshot's summary of the index of aborted transactions of the segment before it.

    Attributes:
        aborted_count: Number of its entries; None if the snapshot does not name it.
        may_have_any: Whether a producer of the snapshot has a transaction, or had one.
    """

    aborted_count: int | None
    may_have_any: bool


def told_aborted(path: Path, data: bytes) -> ToldAborted:
    """Read what a snapshot tells of aborted transactions.

    Raises:
        CorruptRecordError: as `ProducerState.decode`.
    """
    end = _end_of_entries(path, data)
    if len(data) > end:
        producer_id, count, *_ = _EARLIER.unpack_from(data, len(data) - _EARLIER.size)
        if producer_id == NO_PRODUCER:
            return ToldAborted(count, may_have_any=True)
    for *_, coordinator_epoch, transaction_start in _ENTRY.iter_unpack(data[_HEAD.size : end]):
        if coordinator_epoch != NO_EPOCH or transaction_start != NO_OFFSET:
            return ToldAborted(None, may_have_any=True)
    return ToldAborted(0, may_have_any=False)


def with_aborted_count(path: Path, data: bytes, count: int) -> bytes:
    """Return a snapshot that names another number of aborted transactions.

    Raises:
        CorruptRecordError: as `ProducerState.decode`.
    """
    end = len(data)
    if end > _end_of_entries(path, data):
        producer_id, *_ = _EARLIER.unpack_from(data, end - _EARLIER.size)
        if producer_id == NO_PRODUCER:
            end -= _EARLIER.size
    return _with_crc(data[_CRC_START:end] + _aborted_record(count))


def _aborted_record(count: int) -> bytes:
    return _EARLIER.pack(NO_PRODUCER, count, NO_OFFSET, 0, -1)


def _with_crc(content: bytes) -> bytes:
    return struct.pack(">hI", SNAPSHOT_VERSION, crc32c(content)) + content


def _end_of_entries(path: Path, data: bytes) -> int:
    """Check a snapshot file, and return where the entries end that Kafka reads."""
    if len(data) < _HEAD.size:
        raise CorruptRecordError(path, len(data), "producer snapshot is truncated")
    version, crc, count = _HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptRecordError(path, 0, f"producer snapshot has version {version}")
    if crc32c(data[_CRC_START:]) != crc:
        raise CorruptRecordError(path, 2, "producer snapshot has a wrong CRC")
    end: int = _HEAD.size + count * _ENTRY.size
    if count < 0 or len(data) < end or (len(data) - end) % _EARLIER.size:
        raise CorruptRecordError(path, _CRC_START, f"producer snapshot counts {count} entries")
    return end


def _duplicate(header: BatchHeader, entry: ProducerEntry) -> Duplicate | None:
    if entry.epoch == header.producer_epoch:
        first, last = header.base_sequence, header.last_sequence
        for batch in entry.batches:
            if batch.last_sequence == last and batch.first_sequence == first:
                return Duplicate(
                    base_offset=batch.base_offset,
                    last_offset=batch.last_offset,
                    timestamp=batch.timestamp,
                )
    return None


def _check_epoch(producer_id: int, producer_epoch: int, entry: ProducerEntry) -> None:
    if producer_epoch < entry.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch of producer {producer_id} is {producer_epoch}, which is smaller than the last "
            f"seen epoch {entry.epoch}",
        )


def _check_sequence(header: BatchHeader, entry: ProducerEntry) -> None:
    first = header.base_sequence
    if header.producer_epoch > entry.epoch:
        if first != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"invalid sequence number for new epoch of producer {header.producer_id}: "
                f"{header.producer_epoch} (request epoch), {first} (sequence number), "
                f"{entry.epoch} (current producer epoch)",
            )
        return
    expected = (entry.last_sequence + 1) & MAX_SEQUENCE
    if first != expected:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"out of order sequence number for producer {header.producer_id}: {first} (incoming "
            f"sequence number), {entry.last_sequence} (current end sequence number)",
        )


def _entry(
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_start: int,
    *,
    earlier: tuple[ProducerBatch, ...],
) -> ProducerEntry:
    batches: tuple[ProducerBatch, ...] = ()
    if last_offset >= 0:
        batches = (
            *earlier[-BATCHES_REMEMBERED_MAX + 1 :],
            ProducerBatch(
                last_sequence=last_sequence,
                last_offset=last_offset,
                offset_delta=offset_delta,
                timestamp=timestamp,
            ),
        )
    return ProducerEntry(
        epoch=epoch,
        batches=batches,
        last_timestamp=timestamp,
        coordinator_epoch=coordinator_epoch,
        transaction_start=transaction_start,
    )
