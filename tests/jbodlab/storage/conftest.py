"""A log in a temporary directory, with short ways to fill it and open it again."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from jbodlab.record_batch.record_batch import build_batch, read_header
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.ids import TopicPartition
from tests.jbodlab.storage.log.direct_log import DirectLog

TOPIC_ID = UUID("00000000-0000-4000-8000-00000000002a")


class LogBox:
    """One log and what was appended to it."""

    def __init__(self, log_dir: Path, **config: object) -> None:
        self.fs = PosixFileSystem()
        self.config = LogConfig(**config)  # type: ignore[arg-type]
        self.log = DirectLog.create(
            self.fs, log_dir, TopicPartition("orders", 3), TOPIC_ID, self.config
        )
        self.batches: list[bytes] = []

    @property
    def directory(self) -> Path:
        return self.log.directory

    def append(
        self,
        count: int = 1,
        *,
        epoch: int = 0,
        timestamp: int = 1000,
        value_size: int = 20,
        producer: tuple[int, int, int] | None = None,
    ) -> bytes:
        """Append one batch; `producer` is id, epoch and first sequence."""
        producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
        batch = build_batch(
            [(None, b"v" * value_size)] * count,
            base_offset=self.log.log_end_offset,
            leader_epoch=epoch,
            timestamp_ms=timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        # As a produce request comes: the stamped head and the rest are two buffers.
        self.log.append([batch[:16], memoryview(batch)[16:]], [read_header(batch)])
        self.batches.append(batch)
        return batch

    def reopen(
        self,
        *,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int | None = None,
        cleaned_to: int | None = None,
    ) -> DirectLog:
        """Open the files again, as after a kill unless the log was closed."""
        self.log.abandon()
        self.log = DirectLog.load(
            self.fs,
            self.directory,
            self.config,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            cleaned_to=cleaned_to,
        )
        return self.log

    def content(self, max_offset: int | None = None) -> bytes:
        """Read everything from the log start on, as a consumer does."""
        found = bytearray()
        offset = self.log.log_start_offset
        while data := self.log.read(offset, 1 << 20, max_offset):
            position = 0
            while position < len(data):
                header = read_header(data, position)
                offset = header.next_offset
                position += header.size
            found += data
        return bytes(found)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())


@pytest.fixture
def make_log(tmp_path):
    """Return a function that makes a log; all are closed at the end."""
    made: list[LogBox] = []

    def make(**config: object) -> LogBox:
        box = LogBox(tmp_path, **config)
        made.append(box)
        return box

    yield make
    for box in made:
        box.log.abandon()
