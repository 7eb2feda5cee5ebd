"""Records of `__consumer_offsets` as Kafka's dump tool prints them.

    key: {"type":"1","data":{...}} payload: {"version":"4","data":{...}}

In a group of consumers, what the members sent as bytes, their subscription and assignment, is read
as well: int16 version, then the fields of Kafka's schemas `ConsumerProtocolSubscription` and
`ConsumerProtocolAssignment`, which are never flexible. A tombstone has the payload `<DELETE>`.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import ClassVar

from jbodlab.group_records.records import GroupRecord, UnknownRecordTypeError, decode
from jbodlab.group_records.values import GroupMetadataValue
from jbodlab.metadata.records.codec import decode_body
from jbodlab.metadata.records.json_form import JsonValue, json_text
from jbodlab.metadata.records.kinds import BYTES, INT32, STRING, array, nullable, struct_of
from jbodlab.metadata.records.schema import Struct, to_json, wire
from jbodlab.record_batch.record_batch import BatchRecord
from jbodlab.vocabulary.errors import DecodeError
from storage_tool.dump.contents import Content
from storage_tool.dump.report import members_text

DELETED = "<DELETE>"
CONSUMER = "consumer"
PROTOCOL_VERSION_MAX = 3
_VERSION = struct.Struct(">h")
_NEVER = 1 << 15


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unflexible(Struct):
    FIRST_FLEXIBLE_VERSION: ClassVar[int] = _NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolTopic(_Unflexible):
    """Partitions of one topic."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolSubscription(_Unflexible):
    """The subscription of a member."""

    topics: tuple[str, ...] = wire(array(STRING))
    user_data: bytes | None = wire(nullable(BYTES), default=None)
    owned_partitions: tuple[ProtocolTopic, ...] = wire(array(struct_of(ProtocolTopic)), since=1)
    generation_id: int = wire(INT32, since=2, default=-1)
    rack_id: str | None = wire(nullable(STRING), since=3, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolAssignment(_Unflexible):
    """The assignment of a member."""

    assigned_partitions: tuple[ProtocolTopic, ...] = wire(array(struct_of(ProtocolTopic)))
    user_data: bytes | None = wire(nullable(BYTES), default=None)


class GroupContents:
    """Records of `__consumer_offsets`."""

    def text(self, record: BatchRecord) -> Content:
        """Key and value as one line of JSON each, or why there is none."""
        try:
            found = decode(record.key, record.value)
        except UnknownRecordTypeError as error:
            # Of share and streams groups, and of the future: no damage.
            said = f"Unknown record type {error.record_type} at offset {record.offset}, skipping."
            return Content(said, None)
        except DecodeError as error:
            return Content(f"Error at offset {record.offset}, skipping. {error}", None, str(error))
        value = _value_json(found, record.value)
        return Content(json_text(_key_json(found)), DELETED if value is None else json_text(value))

    def members(self, record: BatchRecord) -> tuple[str, str | None]:
        """Key and payload as objects; as raw bytes what cannot be decoded."""
        try:
            found = decode(record.key, record.value)
        except DecodeError as error:
            raw: dict[str, JsonValue] = {
                "key": None,
                "keyBytes": _base64(record.key),
                "payload": None,
                "payloadBytes": _base64(record.value),
            }
            is_known = not isinstance(error, UnknownRecordTypeError)
            return members_text(**raw), str(error) if is_known else None
        return members_text(key=_key_json(found), payload=_value_json(found, record.value)), None


def _key_json(record: GroupRecord) -> JsonValue:
    return {"type": str(record.key.RECORD_TYPE), "data": to_json(record.key, 0)}


def _value_json(record: GroupRecord, raw: bytes | None) -> JsonValue:
    if record.value is None or raw is None:
        return None
    (version,) = _VERSION.unpack_from(raw)
    data = to_json(record.value, version)
    if isinstance(record.value, GroupMetadataValue) and record.value.protocol_type == CONSUMER:
        data["members"] = [
            to_json(member, version)
            | _protocol("subscription", ConsumerProtocolSubscription, member.subscription)
            | _protocol("assignment", ConsumerProtocolAssignment, member.assignment)
            for member in record.value.members
        ]
    return {"version": str(version), "data": data}


def _protocol(name: str, cls: type[Struct], data: bytes) -> dict[str, JsonValue]:
    """Return a field of a member as JSON; nothing where it is not what consumers send."""
    if len(data) < _VERSION.size:
        return {}
    (version,) = _VERSION.unpack_from(data)
    if not 0 <= version <= PROTOCOL_VERSION_MAX:
        return {}
    try:
        # What follows the fields known here is of a later version, and left out.
        found, _ = decode_body(cls, version, data, _VERSION.size)
    except DecodeError:
        return {}
    return {name: to_json(found, version)}


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
