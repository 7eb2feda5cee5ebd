"""The leader now: tagged fields that spare a client the next Metadata request (KIP-951).

current_leader   int32 leader id, int32 leader epoch, tags
node_endpoints   compact array of: int32 id, compact string host, int32 port,
compact nullable string rack, tags
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import NamedTuple

from jbodlab.record_batch.varint import UVARINTS, uvarint

NODE_ENDPOINTS_TAG = 0

_LEADER = struct.Struct(">iiB")
_INT32 = struct.Struct(">i")


class CurrentLeader(NamedTuple):
    """The leader that the answering broker knows of."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """Where a broker is reached."""

    node_id: int
    host: str
    port: int
    rack: str | None


def tagged(tag: int, payload: bytes) -> bytes:
    """Return one tagged field."""
    return uvarint(tag) + uvarint(len(payload)) + payload


def current_leader_tag(tag: int, leader: CurrentLeader) -> bytes:
    """Return the tagged field of a partition that names its leader."""
    return tagged(tag, _LEADER.pack(leader.leader_id, leader.leader_epoch, 0))


def endpoint_tags(endpoints: Collection[NodeEndpoint]) -> bytes:
    """Return the tag section at the end of a response, with the addresses of leaders if any."""
    if not endpoints:
        return b"\0"
    payload = bytearray(uvarint(len(endpoints) + 1))
    for endpoint in endpoints:
        payload += _INT32.pack(endpoint.node_id)
        payload += compact_string(endpoint.host)
        payload += _INT32.pack(endpoint.port)
        payload += b"\0" if endpoint.rack is None else compact_string(endpoint.rack)
        payload.append(0)
    return b"\x01" + tagged(NODE_ENDPOINTS_TAG, bytes(payload))


def compact_string(text: str) -> bytes:
    """Return a string of a flexible version."""
    encoded = text.encode()
    return UVARINTS[len(encoded) + 1] + encoded
