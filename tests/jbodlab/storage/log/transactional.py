"""Batches of transactions as Kafka writes them."""

from __future__ import annotations

import struct

from jbodlab.record_batch.record_batch import CONTROL, TRANSACTIONAL, build_batch, read_header
from jbodlab.storage.log.transactions import AbortedTransaction, aborted_between, read_marker

ABORT, COMMIT = 0, 1


def data(
    offset: int, producer: int, sequence: int, *, count: int = 1, timestamp_ms: int = 1000
) -> bytes:
    return build_batch(
        [(None, b"v" * 20)] * count,
        base_offset=offset,
        leader_epoch=0,
        timestamp_ms=timestamp_ms,
        attributes=TRANSACTIONAL,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
    )


def plain(offset: int, *, count: int = 1) -> bytes:
    return build_batch(
        [(None, b"p" * 20)] * count, base_offset=offset, leader_epoch=0, timestamp_ms=1000
    )


def marker(offset: int, producer: int, kind: int, *, coordinator_epoch: int = 3) -> bytes:
    return build_batch(
        [(struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch))],
        base_offset=offset,
        leader_epoch=0,
        timestamp_ms=1000,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer,
        producer_epoch=0,
    )


STORY = (
    plain(0),
    data(1, 7, 0),
    data(2, 8, 0),
    data(3, 7, 1),
    marker(4, 7, ABORT),
    plain(5),
    marker(6, 8, COMMIT),
    data(7, 7, 2),
    data(8, 9, 0),
    marker(9, 9, ABORT),
    data(10, 7, 3),
)
ABORTED = (AbortedTransaction(7, 1, 4, 2), AbortedTransaction(9, 8, 9, 7))


def append(box, batches):
    for batch in batches:
        header = read_header(batch)
        found = read_marker(batch, 0, header) if header.is_control else None
        box.log.append([batch], [header], {} if found is None else {header.base_offset: found})


def all_aborted(box, offset=0, end=10**6):
    closed = box.log.files.aborted(box.log.state.segments.aborted_from(offset), offset, end)
    return [*closed, *aborted_between(box.log.state.active.aborted, offset, end)]


def check(box, count):
    """The log is what the first batches of the story make of it."""
    end = count
    known = [entry for entry in ABORTED if entry.last_offset < end]
    assert box.log.log_end_offset == end
    assert all_aborted(box) == known
    opened = {}
    for offset, batch in enumerate(STORY[:count]):
        header = read_header(batch)
        if header.is_control:
            opened.pop(header.producer_id, None)
        elif header.is_transactional:
            opened.setdefault(header.producer_id, offset)
    for producer in (7, 8, 9):
        entry = box.log.producers.entry(producer)
        assert (-1 if entry is None else entry.transaction_start) == opened.get(producer, -1)
    assert box.log.producers.first_open_offset == min(opened.values(), default=None)
