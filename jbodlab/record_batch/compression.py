"""Compression and decompression of record batches: the door to the library that does it.

The library (cramjam) is imported when the first compressed batch is read: many clusters have none.
Compression and decompression let other threads run.
"""

from __future__ import annotations

import errno
import struct
from mmap import mmap

from jbodlab.vocabulary.errors import DecodeError, DecompressedSizeError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Name of each codec as in Kafka's settings and tools, by its number in a batch's attributes."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
"""First bytes of the Java library's frame around snappy blocks; other clients omit the frame."""

XERIAL_HEADER_SIZE = 16
XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 << 10

LZ4_FRAME = bytes.fromhex("04224d18604082")
"""Begins a frame of independent blocks of 64 KiB; Java's clients read no others. The last byte is
the checksum of the two before it.
"""
LZ4_BLOCK_BYTES = 64 << 10
LZ4_PLAIN = 1 << 31
"""In the size of a block that is not compressed."""
LZ4_MAGIC, LZ4_END = LZ4_FRAME[:4], bytes(4)
LZ4_HEADER_SIZE = len(LZ4_FRAME)
LZ4_KIND, LZ4_INDEPENDENT = 0b1110_0011, 0b0110_0000
"""Version, independent blocks and reserved bits of a frame's flags, and their required values."""
LZ4_BLOCK_CHECKSUMS, LZ4_CONTENT_SIZE, LZ4_CONTENT_CHECKSUM = 1 << 4, 1 << 3, 1 << 2

LIKELY_RATIO, LIKELY_BYTES_MIN = 4, 16 << 10
"""Room that is enough for most batches; cheaper to have than room for any."""

OUTPUT_FULL = "failed to write whole buffer"
"""Error text of the library if the output buffer was too small."""

LACK_OF_MEMORY = ("not enough memory", "cannot allocate memory", "allocation_failed")
"""Error texts of the libraries for zstd and lz4, and of the system, if an allocation fails."""


def decompress(codec: int, data: bytes | memoryview, bytes_max: int | None = None) -> bytes:
    """Return the records of a batch as they were before compression.

    Args:
        codec: Bits 0-2 of the batch's attributes.
        data: Everything behind the batch header.
        bytes_max: Most bytes that the records may have, which also bounds the memory used; None
            for no limit.

    Raises:
        DecompressedSizeError: the records have more bytes.
        DecodeError: the codec is unknown, or the data is damaged.
        MemoryError: the process lacks memory; the data may be valid or not.
    """
    if codec == NONE:
        return bytes(data)
    if codec >= len(CODEC_NAMES):
        raise DecodeError(f"unknown compression codec {codec}")
    import cramjam

    try:
        if bytes_max is not None:
            return _decompress_within(codec, bytes(data), bytes_max)
        if codec == SNAPPY:
            return b"".join(
                bytes(cramjam.snappy.decompress_raw(block)) for block in _snappy_blocks(bytes(data))
            )
        return bytes(getattr(cramjam, CODEC_NAMES[codec]).decompress(bytes(data)))
    except (cramjam.DecompressionError, OSError, ValueError) as error:
        if _is_lack_of_memory(error):
            raise MemoryError(str(error)) from error
        raise DecodeError(f"damaged {CODEC_NAMES[codec]} data: {error}") from error


def check_framing(codec: int, data: bytes | memoryview) -> None:
    """Check that Java's clients can read the frame around the compressed blocks.

    They support fewer frames than the formats allow: of LZ4 a single frame of independent blocks,
    of snappy the frames that declare themselves readable by version 1.

    Args:
        codec: Bits 0-2 of the batch's attributes.
        data: Everything behind the batch header.

    Raises:
        DecodeError: Java's clients cannot read the frame.
    """
    if codec == SNAPPY and data[: len(XERIAL_MAGIC)] == XERIAL_MAGIC:
        if len(data) < XERIAL_HEADER_SIZE or struct.unpack_from(">i", data, 12)[0] < 1:
            raise DecodeError("incompatible version of snappy data")
    elif codec == LZ4:
        try:
            end = _lz4_frame_end(data)
        except (struct.error, IndexError):
            raise DecodeError("damaged lz4 data: the frame is cut short") from None
        if end != len(data):
            raise DecodeError(f"lz4 frame of {end} bytes in {len(data)} bytes of records")


def compress(codec: int, data: bytes) -> bytes:
    """Return the compressed records of a batch, in a frame that every client can read.

    Args:
        codec: Bits 0-2 of the batch's attributes; a known codec.
        data: The records.
    """
    if codec == NONE:
        return data
    import cramjam

    if codec == SNAPPY:
        framed = [XERIAL_MAGIC, XERIAL_VERSIONS]
        for start in range(0, len(data), XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
            framed += (struct.pack(">i", len(block)), block)
        return b"".join(framed)
    if codec == LZ4:
        framed = [LZ4_FRAME]
        for start in range(0, len(data), LZ4_BLOCK_BYTES):
            plain = data[start : start + LZ4_BLOCK_BYTES]
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
            size = len(block)
            if size >= len(plain):
                block, size = plain, len(plain) | LZ4_PLAIN
            framed += (struct.pack("<I", size), block)
        return b"".join((*framed, bytes(4)))
    return bytes(getattr(cramjam, CODEC_NAMES[codec]).compress(data))


def _decompress_within(codec: int, data: bytes, bytes_max: int) -> bytes:
    """Decompress into memory that is there beforehand; the library writes no further."""
    import cramjam

    if codec == SNAPPY:
        blocks = _snappy_blocks(data)
        if sum(map(cramjam.snappy.decompress_raw_len, blocks)) > bytes_max:
            raise DecompressedSizeError(CODEC_NAMES[codec], bytes_max)
        return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)
    decompress_into = getattr(cramjam, CODEC_NAMES[codec]).decompress_into
    likely = max(LIKELY_RATIO * len(data), LIKELY_BYTES_MIN)
    if likely < bytes_max:
        buffer = bytearray(likely)
        try:
            return bytes(memoryview(buffer)[: decompress_into(data, buffer)])
        except cramjam.DecompressionError as error:
            if str(error) != OUTPUT_FULL:
                raise
    # Memory that is mapped, and not written to, is not there yet.
    with mmap(-1, bytes_max) as mapped:
        try:
            return mapped[: decompress_into(data, mapped)]
        except cramjam.DecompressionError as error:
            if str(error) == OUTPUT_FULL:
                raise DecompressedSizeError(CODEC_NAMES[codec], bytes_max) from error
            raise


def _is_lack_of_memory(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    text = str(error).lower()
    return any(words in text for words in LACK_OF_MEMORY)


def _lz4_frame_end(data: bytes | memoryview) -> int:
    """Return the end position of the frame; raises DecodeError if it is of another kind."""
    flags = data[len(LZ4_MAGIC)]
    if data[: len(LZ4_MAGIC)] != LZ4_MAGIC or flags & LZ4_KIND != LZ4_INDEPENDENT:
        raise DecodeError("expected an lz4 frame of independent blocks")
    position = LZ4_HEADER_SIZE + (8 if flags & LZ4_CONTENT_SIZE else 0)
    checksum_size = 4 if flags & LZ4_BLOCK_CHECKSUMS else 0
    while size := struct.unpack_from("<I", data, position)[0]:
        position += 4 + (size & ~LZ4_PLAIN) + checksum_size
    return position + len(LZ4_END) + (4 if flags & LZ4_CONTENT_CHECKSUM else 0)


def _snappy_blocks(data: bytes) -> list[bytes]:
    """Return the compressed blocks without the frame of the Java library, if there is one."""
    if not data.startswith(XERIAL_MAGIC):
        return [data]
    blocks = []
    position = XERIAL_HEADER_SIZE
    while position < len(data):
        if position + 4 > len(data):
            raise DecodeError("damaged snappy data: a block size is cut short")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise DecodeError(f"damaged snappy data: a block of {size} bytes is too large")
        blocks.append(data[position : position + size])
        position += size
    return blocks
