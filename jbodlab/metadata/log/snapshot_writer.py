"""Writes the snapshot of an image piece by piece.

A piece is one batch, a few milliseconds of work, so that other users of the interpreter or the
thread run in between. The file gets the name of a snapshot only when it is complete and on the
disk. A killed process leaves a `.part` file, which the next opening of the log removes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jbodlab.metadata.image.image_writer import each_record
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import control_batch
from jbodlab.metadata.log.snapshots import batches_of_values, snapshot_name
from jbodlab.metadata.records.control_records import (
    ControlRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.storage.directory.filesystem import AppendFile, FileSystem


class SnapshotWriter:
    """One snapshot in the making; blocking, for one thread at a time.

    Args:
        fs: The disk.
        directory: Directory of the metadata log.
        image: The image to write; it ends at the end of a batch of the log.
        created_ms: Time of the batches in the file.
        quorum: State of the voters at the last offset of the image, from `quorum_records`.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        image: MetadataImage,
        *,
        created_ms: int,
        quorum: Sequence[ControlRecord] = (),
    ) -> None:
        self.path = directory / snapshot_name(image.offset + 1, image.epoch)
        self.size_bytes = 0
        """Bytes written so far."""
        self._fs = fs
        self._part = self.path.with_name(self.path.name + ".part")
        self._epoch = image.epoch
        self._timestamp_ms = image.timestamp_ms
        self._created_ms = created_ms
        self._quorum = quorum
        self._values = batches_of_values(each_record(image))
        self._next_offset = 0
        self._file: AppendFile | None = None

    def write_piece(self) -> bool:
        """Write the next batch; returns False if there was none left.

        Raises:
            OSError: the disk.
        """
        if self._file is None:
            self._file = self._fs.open_append(self._part)
            self._file.truncate(0)
            self._write_control(
                SnapshotHeaderRecord(last_contained_log_timestamp=self._timestamp_ms), *self._quorum
            )
        values = next(self._values, None)
        if values is None:
            return False
        data = build_batch(
            [(None, value) for value in values],
            base_offset=self._next_offset,
            leader_epoch=self._epoch,
            timestamp_ms=self._created_ms,
        )
        self._write(data, len(values))
        return True

    def finish(self) -> Path:
        """Write the end, and give the file its name when all of it is on the disk.

        Raises:
            OSError: the disk.
        """
        assert self._file is not None
        assert next(self._values, None) is None
        self._write_control(SnapshotFooterRecord())
        self._file.fsync()
        self._file.close()
        self._fs.make_read_only(self._part)
        self._fs.rename(self._part, self.path)
        return self.path

    def abandon(self) -> None:
        """Cancel the snapshot, and remove its partial file.

        Raises:
            OSError: the disk.
        """
        if self._file is not None:
            self._file.close()
        self._fs.unlink(self._part, missing_ok=True)

    def _write_control(self, *records: ControlRecord) -> None:
        batch = control_batch(
            *records,
            base_offset=self._next_offset,
            epoch=self._epoch,
            timestamp_ms=self._created_ms,
        )
        self._write(batch, len(records))

    def _write(self, batch: bytes, records: int) -> None:
        assert self._file is not None
        self._file.write(batch)
        self.size_bytes += len(batch)
        self._next_offset += records
