"""Decompression of record batches: the door to the library that does it.

The cluster stores compressed batches unopened, so the library (cramjam) is optional and imported
only when a compressed batch is to be read.
"""

from __future__ import annotations

import struct

from jbodlab.errors import DecodeError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Name of each codec as in Kafka's settings and tools, by its number in a batch's attributes."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
"""Begins the framing that the Java library puts around snappy blocks; other clients omit it."""

XERIAL_HEADER_SIZE = 16


def decompress(codec: int, data: bytes | memoryview) -> bytes:
    """Return the records of a batch as they were before compression.

    Args:
        codec: Bits 0-2 of the batch's attributes.
        data: Everything behind the batch header.

    Raises:
        DecodeError: the codec is unknown, its library is missing, or the data is damaged.
    """
    if codec == NONE:
        return bytes(data)
    if codec >= len(CODEC_NAMES):
        raise DecodeError(f"unknown compression codec {codec}")
    try:
        import cramjam
    except ImportError as error:
        raise DecodeError(
            f"a batch is compressed with {CODEC_NAMES[codec]} and the library cramjam is not "
            "installed (extra 'compression')"
        ) from error
    try:
        if codec == GZIP:
            return bytes(cramjam.gzip.decompress(bytes(data)))
        if codec == SNAPPY:
            return _decompress_snappy(bytes(data))
        if codec == LZ4:
            return bytes(cramjam.lz4.decompress(bytes(data)))
        return bytes(cramjam.zstd.decompress(bytes(data)))
    except (cramjam.DecompressionError, OSError, ValueError, MemoryError) as error:
        raise DecodeError(f"damaged {CODEC_NAMES[codec]} data: {error}") from error


def _decompress_snappy(data: bytes) -> bytes:
    import cramjam

    if not data.startswith(XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks = []
    position = XERIAL_HEADER_SIZE
    while position < len(data):
        if position + 4 > len(data):
            raise DecodeError("damaged snappy data: a block size is cut short")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise DecodeError(f"damaged snappy data: a block of {size} bytes does not fit")
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[position : position + size])))
        position += size
    return b"".join(blocks)
