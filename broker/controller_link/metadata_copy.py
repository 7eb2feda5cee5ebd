"""This broker's copy of the metadata log; used only on the metadata directory's thread.

After a write failed for lack of space, the copy is opened again before the next attempt, and
continues with what it then lacks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from jbodlab.metadata.log.batches import MetadataBatch, read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshots import (
    PART_SUFFIX,
    Snapshot,
    decode_snapshot,
    prune,
    snapshot_name,
    snapshot_paths,
    take_latest,
)
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.directory.filesystem import FileSystem

READ_BYTES = 1 << 20


class MetadataCopy:
    """The files of `__cluster_metadata-0`; opens them.

    Raises:
        OSError: the directory fails.
    """

    def __init__(self, metadata_dir: Path, fs: FileSystem, settings: MetadataLogSettings) -> None:
        self._fs = fs
        self._settings = settings
        self._metadata_dir = metadata_dir
        self._is_half_done = False
        self._log = self._open()

    @property
    def directory(self) -> Path:
        """The directory of its files."""
        return self._log.directory

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot that can be read."""
        return take_latest(self._fs, self._log.directory)

    def clean(self, now_ms: int) -> None:
        """Remove the oldest that is kept for nobody; `now_ms` is ms since 1970."""
        if not self._is_half_done:
            self._log.clean(self._settings, now_ms)

    def read(self, offset: int) -> Sequence[MetadataBatch]:
        """Return about a megabyte of batches from an offset on; empty at the end.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, the log does not reach that far back.
            DecodeError: a batch is damaged.
        """
        return list(read_batches(self._log.read(offset, READ_BYTES)))

    def crc_before(self, offset: int) -> int | None:
        """Return the CRC of the batch that ends where an offset begins, None without one."""
        return self._log.crc_before(offset)

    def append(self, data: bytes) -> bool:
        """Append whole batches at the end, those that are not there yet; not synced.

        Returns:
            Whether there is room for them on the disk; if not it may be tried again.
        """
        try:
            self._finish()
            known = 0
            for position, header in iterate_headers(data):
                if header.base_offset < self._log.end_offset:
                    known = position + header.size
            if known < len(data):
                self._log.append(data[known:])
        except OSError as error:
            if not (disk_errors.is_no_space(error) or disk_errors.is_shortage(error)):
                raise
            self._is_half_done = True
            return False
        return True

    def drop(self) -> None:
        """Forget everything."""
        for path in snapshot_paths(self._log.directory, fs=self._fs):
            self._fs.unlink(path)
        self._log.reset_to(0)

    def replace_by_snapshot(self, data: bytes, end_offset: int, epoch: int) -> Snapshot | None:
        """Keep a snapshot that was received, and go on behind it.

        Returns:
            The snapshot; None if there is no room for it on the disk.

        Raises:
            DecodeError: it is damaged or incomplete; nothing is changed then.
        """
        header, records = decode_snapshot(data)
        path = self._log.directory / snapshot_name(end_offset, epoch)
        part = path.with_name(path.name.removesuffix(".checkpoint") + PART_SUFFIX)
        try:
            self._finish()
            self._fs.write_bytes(part, data, sync=True)
            self._fs.make_read_only(part)
            self._fs.rename(part, path)
            self._log.reset_to(end_offset, epoch)
        except OSError as error:
            if not (disk_errors.is_no_space(error) or disk_errors.is_shortage(error)):
                raise
            self._fs.unlink(part, missing_ok=True)
            self._is_half_done = True
            return None
        prune(self._fs, self._log.directory)
        return Snapshot(
            end_offset=end_offset,
            epoch=epoch,
            timestamp_ms=header.last_contained_log_timestamp,
            records=records,
        )

    def close(self) -> None:
        """Sync and close the files."""
        self._log.close()

    def _open(self) -> MetadataLog:
        return MetadataLog.open(
            self._metadata_dir,
            fs=self._fs,
            segment_bytes=self._settings.effective_segment_bytes,
            segment_ms=self._settings.segment_ms,
            is_copy=True,
        )

    def _finish(self) -> None:
        """Open the log anew if something was left half done."""
        if self._is_half_done:
            with contextlib.suppress(OSError):
                self._log.close()
            self._log = self._open()
            self._is_half_done = False
