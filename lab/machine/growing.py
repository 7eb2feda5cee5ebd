"""Files that servers write, read while they grow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import aiofiles
import aiofiles.os

from jbodlab.metadata.log.batches import MetadataBatch, read_batches
from jbodlab.metadata.records.topic_records import PartitionChangeRecord, TopicRecord
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.vocabulary.errors import DecodeError
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
    """The metadata log of a cluster, read from the files of all controllers while they grow.

    A batch counts when a majority of the controllers has it: the end of a single log may be cut
    again. A controller that is gone has left its files.

    Args:
        metadata_log_dirs: The metadata directory of each controller.
    """

    def __init__(self, metadata_log_dirs: Iterable[Path]) -> None:
        self._copies = [_GrowingCopy(each) for each in metadata_log_dirs]
        self._next_offset = 0
        self._found: dict[tuple[int, int], tuple[MetadataBatch, set[int]]] = {}
        """Batches from there on by offset and CRC, and which controllers have them."""
        self._topics: dict[TopicId, str] = {}

    async def read(self) -> list[MetadataBatch]:
        """Return the batches that were completed since the last call."""
        for number, copy in enumerate(self._copies):
            with contextlib.suppress(OSError):
                for batch in await copy.read():
                    if batch.base_offset >= self._next_offset:
                        key = batch.base_offset, batch.crc
                        self._found.setdefault(key, (batch, set()))[1].add(number)
        found: list[MetadataBatch] = []
        for _, (batch, copies) in sorted(self._found.items(), key=lambda item: item[0]):
            if 2 * len(copies) > len(self._copies) and batch.base_offset >= self._next_offset:
                found.append(batch)
                self._next_offset = batch.last_offset + 1
        self._found = {k: v for k, v in self._found.items() if k[0] >= self._next_offset}
        for batch in found:
            for _, (record, _) in batch.data_records:
                if isinstance(record, TopicRecord):
                    self._topics[record.topic_id] = record.name
        return found

    def partition(self, change: PartitionChangeRecord) -> TopicPartition | None:
        """Return the partition that a record changes; None if its topic is unknown."""
        topic = self._topics.get(change.topic_id)
        return None if topic is None else TopicPartition(topic, change.partition_id)


class _GrowingCopy:
    """The log of one controller, whose end may be cut."""

    def __init__(self, metadata_log_dir: Path) -> None:
        self._directory = metadata_log_dir / f"{METADATA_TOPIC}-0"
        self._file: Path | None = None
        self._position = 0

    async def read(self) -> list[MetadataBatch]:
        found: list[MetadataBatch] = []
        for name in sorted(await _names(self._directory)):
            file = self._directory / name
            if file.suffix == ".log" and (self._file is None or file > self._file):
                self._file, self._position = file, 0
            if file == self._file:
                found += await self._read_rest(file)
        return found

    async def _read_rest(self, file: Path) -> list[MetadataBatch]:
        if (await aiofiles.os.stat(file)).st_size < self._position:
            self._position = 0
        data = await _read_on(file, self._position)
        try:
            # The last batch may be half written.
            complete = max((at + header.size for at, header in iterate_headers(data)), default=0)
            batches = list(read_batches(data[:complete]))
        except DecodeError:
            # The end was cut and written anew: all is read once more.
            self._position = 0
            return []
        self._position += complete
        return batches


async def _read_on(file: Path, position: int) -> bytes:
    # Files are asked fifty times a second, and most have not grown.
    if (await aiofiles.os.stat(file)).st_size <= position:
        return b""
    async with aiofiles.open(file, "rb") as opened:
        await opened.seek(position)
        return await opened.read()
