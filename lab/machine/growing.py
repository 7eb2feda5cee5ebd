"""Files that servers write, read while they grow."""

from __future__ import annotations

import os
from pathlib import Path

import aiofiles
import aiofiles.os

from jbodlab.metadata.log.batches import MetadataBatch, read_batches
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, TopicRecord
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.vocabulary.ids import METADATA_TOPIC, TopicId, TopicPartition

_names = aiofiles.os.wrap(os.listdir)


class GrowingOutput:
    """A server's output, read line by line while it is written."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = 0

    async def read(self) -> list[str]:
        """Return the lines that were completed since the last call."""
        data = await _read_on(self._file, self._position)
        complete = data[: data.rfind(b"\n") + 1]
        self._position += len(complete)
        return complete.decode("utf-8", "replace").splitlines()


class GrowingLog:
    """The controller's log, read while it is written."""

    def __init__(self, metadata_log_dir: Path) -> None:
        self._directory = metadata_log_dir / f"{METADATA_TOPIC}-0"
        self._file: Path | None = None
        self._position = 0
        self._topics: dict[TopicId, str] = {}

    async def read(self) -> list[MetadataBatch]:
        """Return the batches that were completed since the last call."""
        found: list[MetadataBatch] = []
        for name in sorted(await _names(self._directory)):
            file = self._directory / name
            if file.suffix == ".log" and (self._file is None or file > self._file):
                self._file, self._position = file, 0
            if file == self._file:
                found += await self._read_rest(file)
        for batch in found:
            for _, (record, _) in batch.data_records:
                if isinstance(record, TopicRecord):
                    self._topics[record.topic_id] = record.name
        return found

    def partition(self, change: PartitionChangeRecord) -> TopicPartition | None:
        """Return the partition that a record changes; None if its topic is unknown."""
        topic = self._topics.get(change.topic_id)
        return None if topic is None else TopicPartition(topic, change.partition_id)

    async def _read_rest(self, file: Path) -> list[MetadataBatch]:
        data = await _read_on(file, self._position)
        # The last batch may be half written.
        complete = max((at + header.size for at, header in iterate_headers(data)), default=0)
        self._position += complete
        return list(read_batches(data[:complete]))


async def _read_on(file: Path, position: int) -> bytes:
    # Files are asked fifty times a second, and most have not grown.
    if (await aiofiles.os.stat(file)).st_size <= position:
        return b""
    async with aiofiles.open(file, "rb") as opened:
        await opened.seek(position)
        return await opened.read()
