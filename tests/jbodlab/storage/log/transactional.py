"""Batches of transactions as Kafka writes them."""

from __future__ import annotations

import struct

from jbodlab.record_batch.record_batch import CONTROL, TRANSACTIONAL, build_batch

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
