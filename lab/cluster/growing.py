"""Files that servers write, read while they grow."""

from __future__ import annotations

from pathlib import Path

from jbodlab.ids import METADATA_TOPIC, TopicId, TopicPartition
from jbodlab.metadata_log.batches import MetadataBatch, read_batches
from jbodlab.protocol.record_batch import iterate_headers
from jbodlab.records.topic_records import PartitionChangeRecord, TopicRecord


class GrowingOutput:
    """A server's output, read line by line while it is written."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = 0

    def read(self) -> list[str]:
        """Return the lines that were completed since the last call."""
        with self._file.open("rb") as opened:
            opened.seek(self._position)
            data = opened.read()
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

    def read(self) -> list[MetadataBatch]:
        """Return the batches that were completed since the last call."""
        found: list[MetadataBatch] = []
        for file in sorted(self._directory.glob("*.log")):
            if self._file is None or file > self._file:
                self._file, self._position = file, 0
            if file == self._file:
                found += self._read_rest(file)
        for batch in found:
            for _, (record, _) in batch.data_records:
                if isinstance(record, TopicRecord):
                    self._topics[record.topic_id] = record.name
        return found

    def partition(self, change: PartitionChangeRecord) -> TopicPartition | None:
        """Return the partition that a record changes; None if its topic is unknown."""
        topic = self._topics.get(change.topic_id)
        return None if topic is None else TopicPartition(topic, change.partition_id)

    def _read_rest(self, file: Path) -> list[MetadataBatch]:
        with file.open("rb") as opened:
            opened.seek(self._position)
            data = opened.read()
        # The last batch may be half written.
        complete = max((at + header.size for at, header in iterate_headers(data)), default=0)
        self._position += complete
        return list(read_batches(data[:complete]))
