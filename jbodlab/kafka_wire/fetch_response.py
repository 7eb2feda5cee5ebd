"""Fetch responses, built by hand around the record batches, which are not copied.

Versions 12 to 18:

    throttle_time int32, error_code int16, session_id int32
    compact array of topics
        name (12) compact string, or topic id (from 13) 16 bytes
        compact array of partitions
            index                   int32
            error_code              int16
            high_watermark          int64
            last_stable_offset      int64
            log_start_offset        int64
            aborted_transactions    compact nullable array: producer id int64, first offset int64,
                                    tags; null unless the reader wants committed records only
            preferred_read_replica  int32, -1 where it is the one that answers
            records                 compact bytes
            tags                    0: diverging_epoch, 1: current_leader, 2: snapshot_id
        tags
    tags                            0: node_endpoints (from version 16)

Versions 4 to 11 have int32 counts and lengths, int16 string lengths and no tags; error code and
session exist from version 7, `log_start_offset` from 5, `preferred_read_replica` from 11.

A session id of 0 makes a client send whole requests (KIP-227).
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from jbodlab.kafka_wire.codec import Buffer, ResponseEncoder
from jbodlab.kafka_wire.layout import EntityClass
from jbodlab.kafka_wire.leader_hints import (
    CurrentLeader,
    compact_string,
    current_leader_tag,
    endpoint_tags,
    tagged,
)
from jbodlab.record_batch.varint import UVARINTS

TOPIC_IDS_FROM = 13
ENDPOINTS_FROM = 16
DIVERGING_EPOCH_TAG = 0
CURRENT_LEADER_TAG = 1
SNAPSHOT_ID_TAG = 2
NO_SESSION = 0
NO_REPLICA = -1

MILLISECOND = datetime.timedelta(milliseconds=1)

_HEAD = struct.Struct(">ihi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_FLEXIBLE_PARTITION = struct.Struct(">ihqqqBi")
_FLEXIBLE_OFFSETS = struct.Struct(">ihqqq")
_FLEXIBLE_ABORTED = struct.Struct(">qqB")
_ABORTED = struct.Struct(">qq")
_DIVERGING_EPOCH = struct.Struct(">iqB")
_SNAPSHOT_ID = struct.Struct(">qiB")


class FetchedPartition(NamedTuple):
    """The answer for one partition; offsets are -1 on an error."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: Sequence[bytes | memoryview] = ()
    records_size: int = 0
    """Bytes in `records` together."""
    diverging_epoch: tuple[int, int] | None = None
    """Largest common epoch and its end offset; for followers only."""
    current_leader: CurrentLeader | None = None
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """Producer id and first offset of each; None unless they were asked for."""
    preferred_read_replica: int = NO_REPLICA
    """Whom the consumer should rather ask; from version 11."""
    snapshot_id: tuple[int, int] | None = None
    """End offset and epoch of the snapshot to fetch instead; of the metadata log only."""


class FetchedTopic(NamedTuple):
    """The partitions of one topic; the version decides whether name or id is sent."""

    name: str
    topic_id: UUID | None
    partitions: Sequence[FetchedPartition]


def response_encoder(entity_class: EntityClass) -> ResponseEncoder:
    """Return the encoder of version 4 to 18.

    The records are among the pieces as they came; what a version lacks is left out.
    """
    version: int = entity_class.__version__
    is_flexible: bool = entity_class.__flexible__

    def encode_response(response: Any, head: bytearray) -> Sequence[Buffer]:
        throttle_time = response.throttle_time
        throttle_ms = throttle_time // MILLISECOND if throttle_time else 0
        if version >= 7:
            head += _HEAD.pack(throttle_ms, response.error_code, response.session_id)
        else:
            head += _INT32.pack(throttle_ms)
        pieces = _Pieces(head)
        if is_flexible:
            _flexible(pieces, version, response.responses)
            pieces.tail += endpoint_tags(
                response.node_endpoints if version >= ENDPOINTS_FROM else ()
            )
        else:
            _plain(pieces, version, response.responses)
        return pieces.finish()

    return encode_response


class _Pieces:
    """Buffers of a response; `tail` is the one still being written."""

    def __init__(self, head: bytearray) -> None:
        self._buffers: list[Buffer] = []
        self.tail = head

    def records(self, partition: FetchedPartition) -> None:
        if partition.records_size:
            assert sum(map(len, partition.records)) == partition.records_size
            self._buffers.append(self.tail)
            self._buffers += partition.records
            self.tail = bytearray()

    def finish(self) -> list[Buffer]:
        if self.tail:
            self._buffers.append(self.tail)
        return self._buffers


def _flexible(pieces: _Pieces, version: int, topics: Sequence[FetchedTopic]) -> None:
    pieces.tail += UVARINTS[len(topics) + 1]
    for topic in topics:
        if version >= TOPIC_IDS_FROM:
            pieces.tail += bytes(16) if topic.topic_id is None else topic.topic_id.bytes
        else:
            pieces.tail += compact_string(topic.name)
        pieces.tail += UVARINTS[len(topic.partitions) + 1]
        for partition in topic.partitions:
            if partition.aborted_transactions is None:
                pieces.tail += _FLEXIBLE_PARTITION.pack(
                    *partition[:5], 0, partition.preferred_read_replica
                )
            else:
                pieces.tail += _FLEXIBLE_OFFSETS.pack(*partition[:5])
                pieces.tail += UVARINTS[len(partition.aborted_transactions) + 1]
                for aborted in partition.aborted_transactions:
                    pieces.tail += _FLEXIBLE_ABORTED.pack(*aborted, 0)
                pieces.tail += _INT32.pack(partition.preferred_read_replica)
            pieces.tail += UVARINTS[partition.records_size + 1]
            pieces.records(partition)
            pieces.tail += _partition_tags(partition)
        pieces.tail.append(0)


def _partition_tags(partition: FetchedPartition) -> bytes:
    if not any((partition.diverging_epoch, partition.current_leader, partition.snapshot_id)):
        return b"\0"
    tags = []
    if partition.diverging_epoch is not None:
        payload = _DIVERGING_EPOCH.pack(*partition.diverging_epoch, 0)
        tags.append(tagged(DIVERGING_EPOCH_TAG, payload))
    if partition.current_leader is not None:
        tags.append(current_leader_tag(CURRENT_LEADER_TAG, partition.current_leader))
    if partition.snapshot_id is not None:
        payload = _SNAPSHOT_ID.pack(*partition.snapshot_id, 0)
        tags.append(tagged(SNAPSHOT_ID_TAG, payload))
    return UVARINTS[len(tags)] + b"".join(tags)


def _plain(pieces: _Pieces, version: int, topics: Sequence[FetchedTopic]) -> None:
    offsets = struct.Struct(">ihqq" + ("q" if version >= 5 else ""))
    rest = struct.Struct(">" + ("i" if version >= 11 else "") + "i")
    pieces.tail += _INT32.pack(len(topics))
    for topic in topics:
        name = topic.name.encode()
        pieces.tail += _INT16.pack(len(name)) + name + _INT32.pack(len(topic.partitions))
        for partition in topic.partitions:
            pieces.tail += offsets.pack(*partition[: 5 if version >= 5 else 4])
            aborted = partition.aborted_transactions
            pieces.tail += _INT32.pack(-1 if aborted is None else len(aborted))
            for each in aborted or ():
                pieces.tail += _ABORTED.pack(*each)
            replica = (partition.preferred_read_replica,) if version >= 11 else ()
            pieces.tail += rest.pack(*replica, partition.records_size)
            pieces.records(partition)
