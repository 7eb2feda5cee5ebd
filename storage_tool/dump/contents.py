"""Contents of a record behind its metadata: the payload as text or as JSON.

A `Contents` turns a record of a data batch into the end of its line, and into members of its JSON
object. Control records are the same in every log, see `jbodlab.metadata.records.control_records`.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.json_text import JsonValue, data_text, json_text
from jbodlab.metadata.records.schema import RawRecord
from jbodlab.metadata.records.secrets import redacted_data, redacted_text
from jbodlab.record_batch.record_batch import BatchRecord
from jbodlab.vocabulary.errors import DecodeError, FormatError
from storage_tool.dump.report import members_text

RAW_BYTES_SHOWN_MAX = 64
"""Bytes of a record of unknown type that the text shows; JSON has all of them."""


class Content(NamedTuple):
    """A decoded record; `None` for a key or payload without text."""

    key: str | None
    payload: str | None
    complaint: str | None = None
    """Why it could not be decoded."""


class Contents(Protocol):
    """A way to read the records of data batches."""

    def text(self, record: BatchRecord) -> Content:
        """Return key and payload as Kafka's tool prints them."""

    def members(self, record: BatchRecord) -> tuple[str, str | None]:
        """Return members of the record's JSON object as text, and a complaint as in `Content`."""


class MetadataContents:
    """Records of the metadata log.

    Args:
        shows_secrets: Whether the keys of users are shown, as Kafka's tool does.
    """

    def __init__(self, *, shows_secrets: bool) -> None:
        self._shows_secrets = shows_secrets

    def text(self, record: BatchRecord) -> Content:
        """One line of JSON, or the reason why the record has none."""
        try:
            versioned = frame.decode(record.value)
            if isinstance(versioned.record, RawRecord):
                raise DecodeError(_unknown_type(versioned.record))
            as_text = frame.payload_text if self._shows_secrets else redacted_text
            return Content(None, as_text(versioned))
        except DecodeError as error:
            return Content(None, f"Error at {record.offset}, skipping. {error}", str(error))

    def members(self, record: BatchRecord) -> tuple[str, str | None]:
        """The payload as an object with unknown tagged fields; raw bytes if it is not a record."""
        try:
            versioned = frame.decode(record.value)
        except DecodeError as error:
            return members_text(payload=None, payloadBytes=_base64(record.value)), str(error)
        found, version = versioned
        if isinstance(found, RawRecord):
            payload: dict[str, JsonValue] = {
                "type": found.NAME,
                "apiKey": found.api_key,
                "version": found.version,
                "body": _base64(found.body),
            }
            return members_text(payload=payload), _unknown_type(found)
        hidden = None
        if not self._shows_secrets:
            hidden = redacted_data(versioned, with_unknown_tags=True)
        data = (
            data_text(found, min(version, found.HIGHEST_VERSION), with_unknown_tags=True)
            if hidden is None
            else json_text(hidden)
        )
        head = f'"payload":{{"type":"{found.NAME}","version":{version},"data":'
        return f"{head}{data}}}", None


class PlainContents:
    """Records of any topic, key and value each decoded on its own."""

    def __init__(
        self, key: Callable[[bytes], str | int], value: Callable[[bytes], str | int]
    ) -> None:
        self._key = key
        self._value = value

    def text(self, record: BatchRecord) -> Content:
        """Key and value as text."""
        try:
            key = None if record.key is None else str(self._key(record.key))
            payload = None if record.value is None else str(self._value(record.value))
        except DecodeError as error:
            return Content(None, f"Error at {record.offset}, skipping. {error}", str(error))
        return Content(key, payload)

    def members(self, record: BatchRecord) -> tuple[str, str | None]:
        """Key and value; one that is not text or a number is base64, under another name."""
        members: dict[str, JsonValue] = {}
        complaint = None
        for name, data, decode in (
            ("key", record.key, self._key),
            ("payload", record.value, self._value),
        ):
            members[name] = None
            if data is None:
                continue
            try:
                decoded = decode(data)
            except DecodeError as error:
                complaint = str(error)
                members[f"{name}Bytes"] = _base64(data)
                continue
            if isinstance(decoded, str) and decoded.encode() != data:
                members[f"{name}Bytes"] = _base64(data)
            members[name] = decoded
        return members_text(**members), complaint


def plain_decoder(class_name: str) -> Callable[[bytes], str | int]:
    """Return the function of a decoder class of Kafka.

    Raises:
        FormatError: the class is not built in; this tool cannot run Java classes.
    """
    decoder = _DECODERS.get(class_name.rpartition(".")[2])
    if decoder is None:
        raise FormatError(
            f"unsupported decoder {class_name}, expected one of {', '.join(sorted(_DECODERS))}"
        )
    return decoder


def _string(data: bytes) -> str:
    return data.decode(errors="replace")


def _number(code: str) -> Callable[[bytes], int]:
    packed = struct.Struct(code)

    def decode(data: bytes) -> int:
        if len(data) != packed.size:
            raise DecodeError(f"expected a number of {packed.size} bytes, got {len(data)} bytes")
        return int(packed.unpack(data)[0])

    return decode


_DECODERS: Mapping[str, Callable[[bytes], str | int]] = {
    "StringDecoder": _string,
    "IntegerDecoder": _number(">i"),
    "LongDecoder": _number(">q"),
}


def _unknown_type(raw: RawRecord) -> str:
    shown = raw.body[:RAW_BYTES_SHOWN_MAX].hex()
    more = "..." if len(raw.body) > RAW_BYTES_SHOWN_MAX else ""
    return (
        f"unknown record type {raw.api_key}, version {raw.version}, {len(raw.body)} bytes"
        f"{': ' if shown else ''}{shown}{more}"
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
