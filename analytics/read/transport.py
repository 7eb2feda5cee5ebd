"""Changes that a copy or a checkout made to a file on its way, where its bytes show them."""

from __future__ import annotations

from mmap import mmap

from jbodlab.record_batch.record_batch import HEADER_SIZE, crc_is_valid, read_header
from jbodlab.vocabulary.errors import DecodeError

_LOOKED_AT_BYTES = 1 << 20
_REPLACED = "\N{REPLACEMENT CHARACTER}".encode()
_TEXT = frozenset((*range(0x20, 0x7F), *b"\t\r\n"))

_BEGINNINGS = (
    (b"version https://git-lfs", "the file is a git-lfs pointer, `git lfs pull` fetches the bytes"),
    (b"\x1f\x8b", "the file is compressed with gzip"),
    (b"\x28\xb5\x2f\xfd", "the file is compressed with zstd"),
    (b"PK\x03\x04", "the file is a zip archive"),
)


def mangled(data: bytes | mmap, position: int) -> str:
    """Return how the bytes of a file that should be a batch were changed; empty if unknown."""
    begin = bytes(data[position : position + _LOOKED_AT_BYTES])
    if position == 0:
        for known, text in _BEGINNINGS:
            if begin.startswith(known):
                return text
    if _is_batch(begin.replace(b"\r\n", b"\n")):
        return "line feeds (0A) became 0D 0A: the file was copied as text"
    if begin and _TEXT.issuperset(begin[:HEADER_SIZE]):
        return "the bytes are text"
    if _REPLACED in begin:
        return "bytes became EF BF BD: the file was copied as UTF-8 text"
    return ""


def _is_batch(data: bytes) -> bool:
    with memoryview(data) as view:
        try:
            return crc_is_valid(view, 0, read_header(view, 0))
        except DecodeError:
            return False
