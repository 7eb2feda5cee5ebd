"""Varints: seven bits in each byte, the lowest first; the highest bit is set if more bytes follow.

Sizes, counts and tags of Kafka's messages are unsigned varints. The fields of a record in a batch
are zig-zag: 0, 1, 2, 3 encode 0, -1, 1, -2. Readers raise IndexError where the bytes end.
"""

from __future__ import annotations

from jbodlab.vocabulary.errors import DecodeError

_KEPT = 4096
_UINT32_MAX = 2**32 - 1


class _Encoded(dict[int, bytes]):
    """Unsigned varints by their number; the small ones are kept."""

    def __missing__(self, number: int) -> bytes:
        encoded = bytearray()
        while number > 0x7F:
            encoded.append(number & 0x7F | 0x80)
            number >>= 7
        encoded.append(number)
        return bytes(encoded)


UVARINTS = _Encoded()
"""The unsigned varint of each number; a direct lookup saves the call of `uvarint`."""

UVARINTS.update((number, UVARINTS[number]) for number in range(_KEPT))


def uvarint(number: int) -> bytes:
    """Return an unsigned varint."""
    return UVARINTS[number]


def varint(number: int) -> bytes:
    """Return a zig-zag varint or varlong."""
    return uvarint(number << 1 if number >= 0 else (-number << 1) - 1)


def read_uvarint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned varint of 32 bits and the position behind it.

    Raises:
        DecodeError: it has more than 5 bytes or 32 bits.
    """
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
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
    following = data[position + 1]
    if following < 0x80:
        # The sizes of most records, and where they stand in a large batch.
        number = byte & 0x7F | following << 7
        return (number >> 1) ^ -(number & 1), position + 2
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
