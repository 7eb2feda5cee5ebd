"""CRC-32C (Castagnoli): the door to the library that computes it."""

from __future__ import annotations

import crc32c as crc32c_library


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of the data as an unsigned 32-bit number."""
    return crc32c_library.crc32c(data)
