"""Dump of `.snapshot` files: the producer state of a partition at an offset.

The layout is drawn in `jbodlab.storage.log.producer_state`; each entry is printed unchanged.
"""

from __future__ import annotations

import struct
from pathlib import Path

from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import MAX_SEQUENCE
from storage_tool.dump.report import Report, optional_long

VERSION = 1

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_START = 6


def dump_producers(report: Report, shown: str, path: Path) -> None:
    """Dump one file.

    Raises:
        OSError: the file cannot be read.
    """
    report.file(shown, "producerSnapshot")
    data = path.read_bytes()
    if len(data) < _HEAD.size:
        report.problem(shown, f"expected a producer snapshot, got {len(data)} bytes")
        return
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        report.problem(shown, f"expected a producer snapshot of version {VERSION}, got {version}")
        return
    computed = crc32c(data[_CRC_START:])
    if crc != computed:
        report.problem(shown, f"expected CRC {computed} of the producer snapshot, got {crc}")
        return
    end = _HEAD.size + count * _ENTRY.size
    if count < 0 or len(data) < end:
        report.problem(shown, f"producer snapshot of {len(data)} bytes claims {count} entries")
        return
    # Only our brokers read the bytes behind the entries; Kafka and its tool ignore them.
    for entry in _ENTRY.iter_unpack(data[_HEAD.size : end]):
        _dump_entry(report, *entry)


def _dump_entry(
    report: Report,
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_start: int,
) -> None:
    start = None if transaction_start < 0 else transaction_start
    line = (
        f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch} "
        f"currentTxnFirstOffset: {optional_long(start)} lastTimestamp: {timestamp}"
    )
    first_sequence = None
    if last_offset >= 0:
        first_sequence = _first_sequence(last_sequence, offset_delta)
        line += (
            f" firstSequence: {first_sequence} lastSequence: {last_sequence} "
            f"lastOffset: {last_offset} offsetDelta: {offset_delta} timestamp: {timestamp}"
        )
    report.entry(
        "producer",
        line,
        producerId=producer_id,
        producerEpoch=epoch,
        coordinatorEpoch=coordinator_epoch,
        currentTxnFirstOffset=start,
        lastTimestamp=timestamp,
        firstSequence=first_sequence,
        lastSequence=last_sequence,
        lastOffset=last_offset,
        offsetDelta=offset_delta,
    )


def _first_sequence(last_sequence: int, offset_delta: int) -> int:
    """Return the sequence `offset_delta` before the last one; 0 follows the largest sequence."""
    if last_sequence < offset_delta:
        return MAX_SEQUENCE - (offset_delta - last_sequence) + 1
    return last_sequence - offset_delta
