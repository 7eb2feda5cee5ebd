"""Produce responses, built by hand: this answer is written once for every batch.

Versions 9 to 12:

    compact array of topics
        name                compact string
        compact array of partitions
            index           int32
            error_code      int16
            base_offset     int64
            log_append_time int64
            log_start       int64
            record_errors   compact array, always empty here
            error_message   compact nullable string
            tags            0: current_leader (from version 10)
        tags
    throttle_time int32
    tags                    0: node_endpoints (from version 10)

Versions 3 to 8 have int32 array counts, int16 string lengths and no tags; `log_start` exists from
version 5, `record_errors` and `error_message` from version 8.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from jbodlab.kafka_wire.codec import Buffer, ResponseEncoder
from jbodlab.kafka_wire.layout import EntityClass
from jbodlab.kafka_wire.leader_hints import (
    CurrentLeader,
    compact_string,
    current_leader_tag,
    endpoint_tags,
)
from jbodlab.record_batch.varint import UVARINTS

LEADER_HINTS_FROM = 10
CURRENT_LEADER_TAG = 0
MILLISECOND = datetime.timedelta(milliseconds=1)

_FLEXIBLE_PARTITION = struct.Struct(">ihqqqB")
_PLAIN_PARTITION = struct.Struct(">ihqq")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class ProducedPartition(NamedTuple):
    """The answer for one partition; -1 where there is no offset or time."""

    partition_index: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None = None
    current_leader: CurrentLeader | None = None


ProducedTopic = tuple[str, Sequence[ProducedPartition]]
"""The name of a topic, and the answers for its partitions."""


def response_encoder(entity_class: EntityClass) -> ResponseEncoder:
    """Return the encoder of version 3 to 12.

    Leader hints are left out of versions that have none.
    """
    version: int = entity_class.__version__
    encode = _flexible if entity_class.__flexible__ else _plain

    def encode_response(response: Any, head: bytearray) -> Sequence[Buffer]:
        encode(version, response, head)
        return (head,)

    return encode_response


def _flexible(version: int, response: Any, out: bytearray) -> None:
    out += UVARINTS[len(response.responses) + 1]
    for name, partitions in response.responses:
        out += compact_string(name)
        out += UVARINTS[len(partitions) + 1]
        for partition in partitions:
            # The last byte is the count of record errors, plus one.
            out += _FLEXIBLE_PARTITION.pack(*partition[:5], 1)
            message = partition.error_message
            out += b"\0" if message is None else compact_string(message)
            leader = partition.current_leader
            if leader is None or version < LEADER_HINTS_FROM:
                out.append(0)
            else:
                out += b"\x01" + current_leader_tag(CURRENT_LEADER_TAG, leader)
        out.append(0)
    throttle_time = response.throttle_time
    out += _INT32.pack(throttle_time // MILLISECOND) if throttle_time else bytes(4)
    endpoints = response.node_endpoints if version >= LEADER_HINTS_FROM else ()
    out += endpoint_tags(endpoints) if endpoints else b"\0"


def _plain(version: int, response: Any, out: bytearray) -> None:
    out += _INT32.pack(len(response.responses))
    for name, partitions in response.responses:
        out += _string(name) + _INT32.pack(len(partitions))
        for partition in partitions:
            out += _PLAIN_PARTITION.pack(*partition[:4])
            if version >= 5:
                out += _INT64.pack(partition.log_start_offset)
            if version >= 8:
                message = partition.error_message
                out += bytes(4) + (b"\xff\xff" if message is None else _string(message))
    out += _INT32.pack(response.throttle_time // MILLISECOND)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded
