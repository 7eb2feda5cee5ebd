"""Records of `__consumer_offsets` as Kafka's dump tool prints them.

    key: {"type":"1","data":{...}} payload: {"version":"4","data":{...}}

For a consumer group, the subscription and assignment of the members, which are bytes in the record,
are decoded as well. A tombstone has the payload `<DELETE>`.
"""

from __future__ import annotations

import base64
import struct

from jbodlab.group_records import consumer_protocol
from jbodlab.group_records.consumer_protocol import (
    HIGHEST_VERSION,
    ConsumerProtocol,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from jbodlab.group_records.records import GroupRecord, decode
from jbodlab.group_records.values import GroupMetadataValue
from jbodlab.metadata.records.json_text import JsonValue, json_text, to_json
from jbodlab.record_batch.record_batch import BatchRecord
from jbodlab.vocabulary.errors import DecodeError, UnknownRecordTypeError
from storage_tool.dump.contents import Content
from storage_tool.dump.report import members_text

DELETED = "<DELETE>"
CONSUMER = "consumer"
_VERSION = struct.Struct(">h")


class GroupContents:
    """Records of `__consumer_offsets`."""

    def text(self, record: BatchRecord) -> Content:
        """Key and value as one line of JSON each, or why there is none."""
        try:
            found = decode(record.key, record.value)
        except UnknownRecordTypeError as error:
            # The record is of a share or streams group, or of a later Kafka: no damage.
            said = f"Unknown record type {error.record_type} at offset {record.offset}, skipping."
            return Content(said, None)
        except DecodeError as error:
            return Content(f"Error at offset {record.offset}, skipping. {error}", None, str(error))
        value = _value_json(found, record.value)
        return Content(json_text(_key_json(found)), DELETED if value is None else json_text(value))

    def members(self, record: BatchRecord) -> tuple[str, str | None]:
        """Key and payload as objects; as raw bytes if they cannot be decoded."""
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


def _protocol(name: str, cls: type[ConsumerProtocol], data: bytes) -> dict[str, JsonValue]:
    """Return a field of a member as JSON; empty if it has not the form that consumers send."""
    try:
        found, version = consumer_protocol.decode(cls, data)
    except DecodeError:
        return {}
    return {name: to_json(found, version)} if version <= HIGHEST_VERSION else {}


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
