"""Transactions in one log: markers, aborted transactions, and the index file of the aborted ones.

Batches of other producers may be between the batches of a transaction. A *marker*, a control batch
of the same producer, says how the transaction ended. A fetch with `read_committed` returns the
aborted transactions, and its consumer skips their records; hence each aborted transaction is
written to the `.txnindex` file of the segment with its marker.
An entry, 34 bytes, big-endian:

    0   int16    version, 0
    2   int64    producer id
    10  int64    offset of its first batch
    18  int64    offset of its marker
    26  int64    last stable offset when the marker was written

The record of a marker: key int16 version, int16 type (0 abort, 1 commit); value int16 version,
int32 coordinator epoch.

Source: `org.apache.kafka.storage.internals.log.TransactionIndex`, `AbortedTxn`, KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from jbodlab.record_batch.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    build_batch,
    iterate_records,
)
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.errors import CorruptRecordError, DecodeError

ABORT = 0
COMMIT = 1

VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker(NamedTuple):
    """The contents of a control batch; the type is `ABORT`, `COMMIT` or an unknown one."""

    type: int
    coordinator_epoch: int


class AbortedTransaction(NamedTuple):
    """One entry of a `.txnindex`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CompletedTransaction(NamedTuple):
    """A transaction that its marker has ended; offsets of its first batch and of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool

    def aborted(self, last_stable_offset: int) -> AbortedTransaction:
        """Return its entry in the index, with the last stable offset behind its marker."""
        return AbortedTransaction(
            self.producer_id, self.first_offset, self.last_offset, last_stable_offset
        )


class UndecidedTransactions:
    """Ended transactions whose markers are not known to be replicated."""

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended: list[CompletedTransaction] = []

    def add(self, completed: CompletedTransaction) -> None:
        """Add a transaction whose marker was appended."""
        self._ended.append(completed)

    def bound(self, high_watermark: int) -> int:
        """Return the lower of the high watermark and the start of the first such transaction."""
        if not self._ended:
            return high_watermark
        self._ended = [each for each in self._ended if each.last_offset >= high_watermark]
        return min([high_watermark, *(each.first_offset for each in self._ended)])

    def reach(self, offset: int) -> bool:
        """Return whether a marker is at or behind an offset."""
        return any(each.last_offset >= offset for each in self._ended)

    def cut(self, end_offset: int) -> None:
        """Forget the transactions whose markers were truncated."""
        self._ended = [each for each in self._ended if each.last_offset < end_offset]


def build_marker(
    producer_id: int, producer_epoch: int, marker: Marker, *, timestamp_ms: int
) -> bytes:
    """Return the control batch that ends the transaction of a producer."""
    return build_batch(
        [(_KEY.pack(VERSION, marker.type), _VALUE.pack(VERSION, marker.coordinator_epoch))],
        timestamp_ms=timestamp_ms,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def read_marker(data: bytes | memoryview, position: int, header: BatchHeader) -> Marker | None:
    """Read the marker of a control batch.

    Args:
        data: Bytes with the whole batch.
        position: Where it begins in them.
        header: Its header.

    Returns:
        None for a control batch that compaction has emptied.

    Raises:
        DecodeError: its record is malformed.
    """
    assert header.is_control
    for record in iterate_records(data, position, header):
        key, value = record.key or b"", record.value or b""
        if len(key) < _KEY.size:
            raise DecodeError(f"control record at offset {record.offset} has a key of {len(key)}")
        _, kind = _KEY.unpack_from(key)
        if kind not in (ABORT, COMMIT):
            return Marker(kind, -1)
        if len(value) < _VALUE.size:
            raise DecodeError(f"marker at offset {record.offset} has a value of {len(value)} bytes")
        return Marker(kind, _VALUE.unpack_from(value)[1])
    return None


def encode_aborted(entries: Iterable[AbortedTransaction]) -> bytes:
    """Return entries as they are in the file."""
    return b"".join(_ENTRY.pack(VERSION, *entry) for entry in entries)


def decode_aborted(path: Path, data: bytes) -> list[AbortedTransaction]:
    """Read the content of a `.txnindex`.

    Raises:
        CorruptRecordError: not whole entries, of another version, or not in order.
    """
    if len(data) % ENTRY_SIZE:
        raise CorruptRecordError(path, len(data), "transaction index does not end with an entry")
    found: list[AbortedTransaction] = []
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        position = len(found) * ENTRY_SIZE
        if version != VERSION:
            raise CorruptRecordError(path, position, f"transaction index entry of {version=}")
        if entry.first_offset >= entry.last_offset or (
            found and found[-1].last_offset >= entry.last_offset
        ):
            raise CorruptRecordError(path, position, "transaction index is not ascending")
        found.append(entry)
    return found


def read_aborted(fs: FileSystem, path: Path, count: int | None) -> list[AbortedTransaction]:
    """Return the entries of a `.txnindex`; a missing file has none.

    Args:
        fs: The disk.
        path: The file.
        count: Number of entries that the log knows of; None if it does not.

    Raises:
        CorruptRecordError: the file is damaged, or has another number of entries.
    """
    try:
        found = decode_aborted(path, fs.read_bytes(path))
    except FileNotFoundError:
        found = []
    if count is not None and len(found) != count:
        reason = f"transaction index has {len(found)} entries instead of {count}"
        raise CorruptRecordError(path, 0, reason)
    return found


def aborted_between(
    entries: Sequence[AbortedTransaction], fetch_offset: int, upper_offset: int
) -> list[AbortedTransaction]:
    """Return the transactions that have records in a range of offsets."""
    return [
        entry
        for entry in entries
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_offset
    ]
