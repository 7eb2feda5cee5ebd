"""`partition.metadata`: the topic id of a partition directory.

    version: 0
    topic_id: 3vTqHHLJT-6vyrZhKjxz9g

Two lines, no newline at the end.

Source: `org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile`.
"""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import CorruptRecordError

VERSION = 0


def read_topic_id(fs: FileSystem, path: Path) -> UUID | None:
    """Return the topic id; None if the file is missing.

    Raises:
        CorruptRecordError: malformed; to be treated as an I/O error of the directory.
    """
    try:
        data = fs.read_bytes(path)
    except FileNotFoundError:
        return None
    lines = data.decode("utf-8", "replace").splitlines()
    version = _value(path, lines, 0, "version")
    try:
        if int(version) < 0:
            raise CorruptRecordError(path, 0, f"Unrecognised version {version}")
        topic_id = kafka_uuid.parse(_value(path, lines, 1, "topic_id"))
    except ValueError as error:
        raise CorruptRecordError(path, 0, f"Malformed file: {error}") from error
    if topic_id == kafka_uuid.ZERO_UUID:
        raise CorruptRecordError(path, 0, "Invalid topic ID in partition metadata file")
    return topic_id


def write_topic_id(fs: FileSystem, path: Path, topic_id: UUID, *, sync: bool = True) -> None:
    """Replace the file, durably if `sync`."""
    text = f"version: {VERSION}\ntopic_id: {kafka_uuid.to_text(topic_id)}"
    fs.write_atomically(path, text.encode("ascii"), sync=sync)


def _value(path: Path, lines: list[str], number: int, key: str) -> str:
    if number < len(lines):
        found, colon, value = lines[number].partition(":")
        if colon and found == key:
            return value.strip()
    raise CorruptRecordError(path, 0, f"Malformed file: no line {number + 1} with {key}")
