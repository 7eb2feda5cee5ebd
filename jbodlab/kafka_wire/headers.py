"""Request and response headers, taken apart and built by hand.

Request header:

    api_key         int16
    api_version     int16
    correlation_id  int32
    client_id       int16 length (-1 null), UTF-8; keeps this form in version 2 too
    tags            only in version 2, that is with a flexible body

Response header: correlation_id int32, and tags with a flexible body; never for ApiVersions, whose
answer must be readable by a client that does not know yet what the broker speaks (KIP-511).
"""

from __future__ import annotations

import struct
from functools import cache

import msgspec

from jbodlab.kafka_wire.api_key import FLEXIBLE_FROM, NEVER_FLEXIBLE, ApiKey, is_flexible
from jbodlab.record_batch.varint import read_uvarint
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

MAX_TAGS = 100
"""Tagged fields in a header; none is defined."""

FIXED = struct.Struct(">hhih")
CORRELATION_ID = struct.Struct(">i")


class RequestHeader(msgspec.Struct, frozen=True):
    """Header of a request; the body starts at `body_offset` of the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def read_request_header(frame: bytes | memoryview) -> RequestHeader:
    """Take the header of a request apart; unknown tags are skipped.

    Raises:
        DecodeError: the frame ends inside the header, or the client id is not UTF-8.
    """
    if len(frame) < FIXED.size:
        raise BufferUnderflowError(f"request of {len(frame)} bytes has no header")
    api_key, api_version, correlation_id, length = FIXED.unpack_from(frame)
    position = FIXED.size
    client_id = None
    if length >= 0:
        end = position + length
        if end > len(frame):
            raise BufferUnderflowError("client id reaches beyond the request")
        try:
            client_id = str(frame[position:end], "utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError(f"client id is not UTF-8: {error}") from error
        position = end
    elif length != -1:
        raise DecodeError(f"invalid client id length {length}")
    if api_version >= FLEXIBLE_FROM.get(api_key, NEVER_FLEXIBLE):
        if frame[position : position + 1] == b"\0":
            position += 1
        else:
            position = _behind_tags(frame, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def describe_header(start: bytes | memoryview) -> str:
    """Name a request by its first bytes, for logs: API, version, and the client's id."""
    if len(start) < FIXED.size:
        return f"request of {len(start)} bytes"
    key, version, _, length = FIXED.unpack_from(start)
    name = ApiKey(key).name if key in ApiKey._value2member_map_ else f"API {key}"
    client = bytes(start[FIXED.size : FIXED.size + max(length, 0)])
    return f"{name} version {version} of client {client.decode(errors='replace')!r}"


def request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Build the header of a request, without the size field before it."""
    text = None if client_id is None else client_id.encode()
    length = -1 if text is None else len(text)
    head = FIXED.pack(api_key, api_version, correlation_id, length) + (text or b"")
    return head + b"\0" if is_flexible(api_key, api_version) else head


@cache
def no_tags(api_key: int, api_version: int) -> bytes:
    """Return the end of a response header, behind the correlation id."""
    has_tags = api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version)
    return b"\0" if has_tags else b""


def read_response_header(
    frame: bytes | memoryview, api_key: int, api_version: int
) -> tuple[int, int]:
    """Return the correlation id of a response and where its body starts.

    Raises:
        DecodeError: the frame ends inside the header.
    """
    if len(frame) < CORRELATION_ID.size:
        raise BufferUnderflowError(f"response of {len(frame)} bytes has no header")
    correlation_id: int = CORRELATION_ID.unpack_from(frame)[0]
    position = CORRELATION_ID.size
    if no_tags(api_key, api_version):
        if frame[position : position + 1] == b"\0":
            position += 1
        else:
            position = _behind_tags(frame, position)
    return correlation_id, position


def _behind_tags(data: bytes | memoryview, position: int) -> int:
    try:
        count, position = read_uvarint(data, position)
        if count > MAX_TAGS:
            raise DecodeError(f"expected at most {MAX_TAGS} header tags, got {count}")
        for _ in range(count):
            _, position = read_uvarint(data, position)
            size, position = read_uvarint(data, position)
            position += size
    except IndexError:
        position = len(data) + 1
    if position > len(data):
        raise BufferUnderflowError("a header tag reaches beyond the message")
    return position
