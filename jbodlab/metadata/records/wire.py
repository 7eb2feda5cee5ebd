"""The primitives that generated encoders and decoders call.

Writers return the bytes of one value. Readers take ``(data, position)`` and return the value and
the position behind it; beyond the end they raise `IndexError`, `struct.error` or `DecodeError`,
which `jbodlab.metadata.records.codec` turns into one error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from uuid import UUID

from jbodlab.metadata.records.schema import EncodeError
from jbodlab.vocabulary.errors import BufferUnderflowError, DecodeError

MAX_STRING_BYTES = 32_767
MAX_VARINT = 2**32 - 1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

NULL_SIZE = {True: b"\x00", False: _INT32.pack(-1)}
"""Size of an array or of bytes that is null, in flexible and in other versions."""


def _varint_bytes(number: int) -> bytes:
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


_SMALL_VARINTS = tuple(_varint_bytes(number) for number in range(1024))

uuid_from_bytes: Callable[[bytes], UUID] = lru_cache(maxsize=1 << 16)(
    lambda raw: UUID(int=int.from_bytes(raw, "big"))
)
"""One object per id: metadata names the same topics and directories again and again."""


def varint(number: int) -> bytes:
    """Return an unsigned varint."""
    return _SMALL_VARINTS[number] if number < 1024 else _varint_bytes(number)


def write_string(value: str) -> bytes:
    """Return a compact string."""
    raw = value.encode()
    if len(raw) > MAX_STRING_BYTES:
        raise EncodeError(f"string of {len(raw)} bytes, expected at most {MAX_STRING_BYTES}")
    return varint(len(raw) + 1) + raw


def write_nullable_string(value: str | None) -> bytes:
    """Return a compact string or null."""
    return b"\x00" if value is None else write_string(value)


def write_bytes(value: bytes) -> bytes:
    """Return compact bytes."""
    return varint(len(value) + 1) + value


def write_count(count: int) -> bytes:
    """Return the element count of a compact array."""
    return varint(count + 1)


def write_wide_string(value: str) -> bytes:
    """Return a string behind a size of 16 bits."""
    raw = value.encode()
    if len(raw) > MAX_STRING_BYTES:
        raise EncodeError(f"string of {len(raw)} bytes, expected at most {MAX_STRING_BYTES}")
    return _INT16.pack(len(raw)) + raw


def write_wide_nullable_string(value: str | None) -> bytes:
    """Return a string behind a size of 16 bits, or null."""
    return _INT16.pack(-1) if value is None else write_wide_string(value)


def write_wide_bytes(value: bytes) -> bytes:
    """Return bytes behind a size of 32 bits."""
    return _INT32.pack(len(value)) + value


def write_wide_count(count: int) -> bytes:
    """Return the element count of an array in 32 bits."""
    return _INT32.pack(count)


def write_numbers(code: str, values: Sequence[int]) -> bytes:
    """Return a compact array of numbers of fixed size."""
    return varint(len(values) + 1) + struct.pack(f">{len(values)}{code}", *values)


def write_uuids(values: Sequence[UUID]) -> bytes:
    """Return a compact array of ids."""
    return varint(len(values) + 1) + b"".join([value.bytes for value in values])


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 5 bytes."""
    byte = data[position]
    position += 1
    number = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift == 35:
            raise DecodeError("varint is longer than 5 bytes")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    if number > MAX_VARINT:
        raise DecodeError(f"varint {number} has more than 32 bits")
    return number, position


def read_size(data: bytes, position: int) -> tuple[int, int]:
    """Read the size of a compact value; -1 is null."""
    size = data[position]
    position += 1
    if size > 0x7F:
        size, position = read_varint(data, position - 1)
    return size - 1, position


def read_nullable_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """Read compact bytes or null."""
    size, position = read_size(data, position)
    if size < 0:
        return None, position
    end = position + size
    if end > len(data):
        raise BufferUnderflowError(f"field of {size} bytes where {len(data) - position} are left")
    return data[position:end], end


def read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Read compact bytes that must not be null."""
    value, position = read_nullable_bytes(data, position)
    if value is None:
        raise DecodeError("the field is null, but not nullable")
    return value, position


def read_nullable_string(data: bytes, position: int) -> tuple[str | None, int]:
    """Read a compact string or null."""
    raw, position = read_nullable_bytes(data, position)
    if raw is None:
        return None, position
    if len(raw) > MAX_STRING_BYTES:
        raise DecodeError(f"string of {len(raw)} bytes, expected at most {MAX_STRING_BYTES}")
    return raw.decode(), position


def read_string(data: bytes, position: int) -> tuple[str, int]:
    """Read a compact string that must not be null."""
    value, position = read_nullable_string(data, position)
    if value is None:
        raise DecodeError("the field is null, but not nullable")
    return value, position


def read_wide_nullable_string(data: bytes, position: int) -> tuple[str | None, int]:
    """Read a string behind a size of 16 bits, or null."""
    (size,) = _INT16.unpack_from(data, position)
    raw, position = _sized(data, position + 2, size)
    return None if raw is None else raw.decode(), position


def read_wide_string(data: bytes, position: int) -> tuple[str, int]:
    """Read a string behind a size of 16 bits that must not be null."""
    value, position = read_wide_nullable_string(data, position)
    if value is None:
        raise DecodeError("the field is null, but not nullable")
    return value, position


def read_wide_nullable_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """Read bytes behind a size of 32 bits, or null."""
    (size,) = _INT32.unpack_from(data, position)
    return _sized(data, position + 4, size)


def read_wide_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Read bytes behind a size of 32 bits that must not be null."""
    value, position = read_wide_nullable_bytes(data, position)
    if value is None:
        raise DecodeError("the field is null, but not nullable")
    return value, position


def read_wide_nullable_count(data: bytes, position: int) -> tuple[int, int]:
    """Read the element count of an array in 32 bits; -1 is null."""
    (count,) = _INT32.unpack_from(data, position)
    position += 4
    if count < -1:
        raise DecodeError(f"array of {count} elements")
    if count > len(data) - position:
        raise BufferUnderflowError(
            f"array of {count} elements where {len(data) - position} bytes are left"
        )
    return count, position


def read_wide_count(data: bytes, position: int) -> tuple[int, int]:
    """Read the element count of an array in 32 bits that must not be null."""
    count, position = read_wide_nullable_count(data, position)
    if count < 0:
        raise DecodeError("the array is null, but not nullable")
    return count, position


def is_present(data: bytes, position: int) -> bool:
    """Read the byte before a struct with a tag that may be null: 1 where there is one, else 0."""
    if data[position] > 0x01:
        raise DecodeError(f"struct with presence {data[position]}")
    return data[position] == 0x01


def _sized(data: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    if size < -1:
        raise DecodeError(f"field of {size} bytes")
    if size < 0:
        return None, position
    end = position + size
    if end > len(data):
        raise BufferUnderflowError(f"field of {size} bytes where {len(data) - position} are left")
    return data[position:end], end


def read_uuid(data: bytes, position: int) -> tuple[UUID, int]:
    """Read one id."""
    end = position + 16
    if end > len(data):
        raise BufferUnderflowError(f"id where {len(data) - position} bytes are left")
    return uuid_from_bytes(data[position:end]), end


def read_count(data: bytes, position: int) -> tuple[int, int]:
    """Read the element count of an array that must not be null."""
    count, position = read_nullable_count(data, position)
    if count < 0:
        raise DecodeError("the array is null, but not nullable")
    return count, position


def read_nullable_count(data: bytes, position: int) -> tuple[int, int]:
    """Read the element count of an array; -1 is null."""
    count, position = read_size(data, position)
    if count > len(data) - position:
        raise BufferUnderflowError(
            f"array of {count} elements where {len(data) - position} bytes are left"
        )
    return count, position


def read_numbers(
    code: str, element_size: int, count: int, data: bytes, position: int
) -> tuple[tuple[int, ...], int]:
    """Read the elements of an array of numbers of fixed size."""
    return (
        struct.unpack_from(f">{count}{code}", data, position),
        position + count * element_size,
    )


def read_uuids(count: int, data: bytes, position: int) -> tuple[tuple[UUID, ...], int]:
    """Read the elements of an array of ids."""
    end = position + 16 * count
    if end > len(data):
        raise BufferUnderflowError(f"{count} ids where {len(data) - position} bytes are left")
    ids = tuple([uuid_from_bytes(data[at : at + 16]) for at in range(position, end, 16)])
    return ids, end
