"""CRC-32C (Castagnoli) of bytes, an unsigned 32-bit number; the library that computes it."""

from crc32c import crc32c

__all__ = ["crc32c"]
