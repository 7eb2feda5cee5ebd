"""Records of coordinators as Kafka's dump tool prints them.

    key: {"type":"1","data":{...}} payload: {"version":"4","data":{...}}

A tombstone has the payload `<DELETE>`.
"""

from __future__ import annotations

import base64
import struct
from typing import Any, Protocol

from jbodlab.metadata.records.json_text import JsonValue, json_text, to_json
from jbodlab.record_batch.record_batch import BatchRecord
from jbodlab.vocabulary.errors import DecodeError, UnknownRecordTypeError
from storage_tool.dump.contents import Content
from storage_tool.dump.report import members_text

DELETED = "<DELETE>"
_VERSION = struct.Struct(">h")


class Decode(Protocol):
    """The decoder of one topic."""

    def __call__(self, key: bytes | None, value: bytes | None, /) -> Any:
        """Return a record with key and value; raises DecodeError."""


class CoordinatorContents:
    """Records of the topic of one kind of coordinators.

    Args:
        decode: Its records.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode

    def text(self, record: BatchRecord) -> Content:
        """Key and value as one line of JSON each, or why there is none."""
        try:
            found = self._decode(record.key, record.value)
        except UnknownRecordTypeError as error:
            # The record is of a kind that is not served here, or of a later Kafka: no damage.
            said = f"Unknown record type {error.record_type} at offset {record.offset}, skipping."
            return Content(said, None)
        except DecodeError as error:
            return Content(f"Error at offset {record.offset}, skipping. {error}", None, str(error))
        value = self._value_json(found, record.value)
        return Content(json_text(_key_json(found)), DELETED if value is None else json_text(value))

    def members(self, record: BatchRecord) -> tuple[str, str | None]:
        """Key and payload as objects; as raw bytes if they cannot be decoded."""
        try:
            found = self._decode(record.key, record.value)
        except DecodeError as error:
            raw: dict[str, JsonValue] = {
                "key": None,
                "keyBytes": _base64(record.key),
                "payload": None,
                "payloadBytes": _base64(record.value),
            }
            is_known = not isinstance(error, UnknownRecordTypeError)
            return members_text(**raw), str(error) if is_known else None
        payload = self._value_json(found, record.value)
        return members_text(key=_key_json(found), payload=payload), None

    def _value_json(self, record: Any, raw: bytes | None) -> JsonValue:
        if record.value is None or raw is None:
            return None
        (version,) = _VERSION.unpack_from(raw)
        return {"version": str(version), "data": self.data_json(record.value, version)}

    def data_json(self, value: Any, version: int) -> dict[str, JsonValue]:
        """Return the fields of a value."""
        return to_json(value, version)


def _key_json(record: Any) -> JsonValue:
    return {"type": str(record.key.RECORD_TYPE), "data": to_json(record.key, 0)}


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
