"""Checkpoint files: the text frame that all of them share, and the ones with offsets.

    0                     version
    2                     number of entries
    topicA 0 123          topic, partition, offset
    topicB 3 0

Every line ends with a newline. An empty file, or one with only the version, has no entries.

If a file of offsets has malformed lines, the other lines are used: each line is about one log only,
and an unknown log start makes deleted records readable again. A file of leader epochs with a
malformed line is damaged as a whole, as its entries have a meaning only in sequence; it is rebuilt
from the batches.

Source: `org.apache.kafka.server.common.CheckpointFile`, `OffsetCheckpointFile`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.ids import TopicPartition

VERSION = 0
OFFSET_MAX = 2**63 - 1
MALFORMED_SHOWN = 3
"""Malformed lines that a warning quotes."""

logger = logging.getLogger(__name__)


def parse_frame(path: Path, data: bytes, field_count: int) -> list[tuple[str, ...]]:
    """Read the fields of each entry.

    Args:
        path: Named in errors.
        data: Content of the file.
        field_count: How many fields each entry must have.

    Raises:
        CorruptRecordError: malformed; the position is that of the line. To be treated as an
            I/O error of the directory.
    """
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines:
        return []
    version = _header(path, lines, 0)
    if version != VERSION:
        raise CorruptRecordError(
            path, 0, f"Unrecognised version:{version}, expected version: {VERSION}"
        )
    if len(lines) == 1:
        return []
    expected = _header(path, lines, 1)
    entries: list[tuple[str, ...]] = []
    for number, line in enumerate(lines[2:], start=2):
        fields = line.split()
        if len(fields) != field_count:
            raise _malformed(path, lines, number)
        entries.append(tuple(fields))
    if len(entries) != expected:
        raise CorruptRecordError(
            path,
            len(data),
            f"Expected {expected} entries in checkpoint file [{path}], "
            f"but found only {len(entries)}",
        )
    return entries


def render_frame(entries: Iterable[Iterable[object]]) -> bytes:
    """Return the content of a checkpoint file."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode("utf-8")


def parse_numbers(path: Path, data: bytes) -> list[tuple[int, int]]:
    """Read a file whose entries are two numbers each.

    Raises:
        CorruptRecordError: malformed.
    """
    return [
        (_number(path, first), _number(path, second))
        for first, second in parse_frame(path, data, 2)
    ]


def read_offsets(fs: FileSystem, path: Path) -> dict[TopicPartition, int]:
    """Read a file of offsets by partition; a missing file has none.

    Malformed lines are left out, with one warning for the file.

    Raises:
        CorruptRecordError: the file has another version, so that its lines cannot be trusted.
    """
    try:
        data = fs.read_bytes(path)
    except FileNotFoundError:
        return {}
    offsets, malformed = _parse_offsets(path, data)
    if malformed:
        logger.warning(
            "ignoring malformed lines of checkpoint file %s (%d valid lines): %s",
            path,
            len(offsets),
            "; ".join(malformed[:MALFORMED_SHOWN]),
        )
    return offsets


def _parse_offsets(path: Path, data: bytes) -> tuple[dict[TopicPartition, int], list[str]]:
    """Return the offsets of the well-formed lines, and the errors of the other lines."""
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines:
        return {}, []
    malformed = []
    version = _natural(lines[0])
    if version is None:
        malformed.append(f"line 1: expected a version, got {lines[0]!r}")
    elif version != VERSION:
        raise CorruptRecordError(
            path, 0, f"Unrecognised version:{version}, expected version: {VERSION}"
        )
    expected = _natural(lines[1]) if len(lines) > 1 else 0
    if expected is None:
        malformed.append(f"line 2: expected a number of entries, got {lines[1]!r}")
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(lines[2:], start=3):
        match line.split():
            case [topic, partition_text, offset_text]:
                partition, offset = _natural(partition_text), _natural(offset_text)
            case _:
                partition = offset = None
        if partition is None or offset is None:
            malformed.append(
                f"line {number}: expected a topic, a partition and an offset, got {line!r}"
            )
        else:
            offsets[TopicPartition(topic, partition)] = offset
    count = max(len(lines) - 2, 0)
    if expected is not None and count != expected:
        malformed.append(f"line 2: expected {expected} entries, got {count}")
    return offsets, malformed


def write_offsets(fs: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a file of offsets, durably."""
    entries = ((tp.topic, tp.partition, offset) for tp, offset in offsets.items())
    fs.write_atomically(path, render_frame(entries))


def _header(path: Path, lines: list[str], number: int) -> int:
    try:
        return int(lines[number])
    except ValueError as error:
        raise _malformed(path, lines, number) from error


def _natural(text: str) -> int | None:
    """Return a number that is written in plain digits, None for any other text."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(OFFSET_MAX)):
        return None
    number = int(text)
    return number if number <= OFFSET_MAX else None


def _number(path: Path, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise CorruptRecordError(
            path, 0, f"Malformed line in checkpoint file [{path}]: {text} is not a number"
        ) from error


def _malformed(path: Path, lines: list[str], number: int) -> CorruptRecordError:
    position = sum(len(line.encode("utf-8")) + 1 for line in lines[:number])
    return CorruptRecordError(
        path, position, f"Malformed line in checkpoint file [{path}]: {lines[number]}"
    )
