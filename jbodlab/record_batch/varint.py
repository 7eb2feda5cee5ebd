"""Varints: seven bits in each byte, the lowest first; the highest bit says that more follow.

Unsigned ones are the sizes, counts and tags of Kafka's messages. The fields of a record in a batch
are zig-zag: 0, -1, 1, -2 stand as 0, 1, 2, 3. Readers raise IndexError where the bytes end.
"""

from __future__ import annotations

from jbodlab.vocabulary.errors import DecodeError

_TABLE_SIZE = 4096
_UINT32_MAX = 2**32 - 1


def uvarint(number: int) -> bytes:
    """Return an unsigned varint."""
    return _TABLE[number] if number < _TABLE_SIZE else _encode(number)


def varint(number: int) -> bytes:
    """Return a zig-zag varint or varlong."""
    return uvarint(number << 1 if number >= 0 else (-number << 1) - 1)


def read_uvarint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned varint of 32 bits and the position behind it.

    Raises:
        DecodeError: it has more than 5 bytes or 32 bits.
    """
    number, position = read_bits(data, position)
    if number > _UINT32_MAX:
        raise DecodeError(f"varint {number} has more than 32 bits")
    return number, position


def read_varint(data: bytes | memoryview, position: int, bytes_max: int = 5) -> tuple[int, int]:
    """Return a zig-zag varint, or with 10 bytes a varlong, and the position behind it.

    Raises:
        DecodeError: it has more bytes.
    """
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    number, position = read_bits(data, position, bytes_max)
    return (number >> 1) ^ -(number & 1), position


def read_bits(data: bytes | memoryview, position: int, bytes_max: int = 5) -> tuple[int, int]:
    """Return the bits of a varint, zig-zag or not, and the position behind it.

    Raises:
        DecodeError: it has more bytes.
    """
    byte = data[position]
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift == 7 * bytes_max:
            raise DecodeError(f"varint is longer than {bytes_max} bytes")
        position += 1
        byte = data[position]
        number |= (byte & 0x7F) << shift
        shift += 7
    return number, position + 1


def _encode(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_TABLE = tuple(map(_encode, range(_TABLE_SIZE)))
