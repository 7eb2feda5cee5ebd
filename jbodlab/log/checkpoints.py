"""Checkpoint files: the text frame that all of them share, and the ones with offsets.

    0                     version
    2                     number of entries
    topicA 0 123          topic, partition, offset
    topicB 3 0

Every line ends with a newline. An empty file, or one with only the version, has no entries.

Source: `org.apache.kafka.server.common.CheckpointFile`, `OffsetCheckpointFile`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from jbodlab.errors import CorruptRecordError
from jbodlab.ids import TopicPartition
from jbodlab.log.filesystem import FileSystem

VERSION = 0


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

    Raises:
        CorruptRecordError: malformed; to be treated as an I/O error of the directory.
    """
    try:
        data = fs.read_bytes(path)
    except FileNotFoundError:
        return {}
    return {
        TopicPartition(topic, _number(path, partition)): _number(path, offset)
        for topic, partition, offset in parse_frame(path, data, 3)
    }


def write_offsets(fs: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a file of offsets, durably."""
    entries = ((tp.topic, tp.partition, offset) for tp, offset in offsets.items())
    fs.write_atomically(path, render_frame(entries))


def _header(path: Path, lines: list[str], number: int) -> int:
    try:
        return int(lines[number])
    except ValueError as error:
        raise _malformed(path, lines, number) from error


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
