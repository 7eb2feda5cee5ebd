"""This broker's copy of the metadata log; used on the metadata directory's thread only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jbodlab.log.filesystem import FileSystem
from jbodlab.metadata_log.batches import MetadataBatch, read_batches
from jbodlab.metadata_log.cleaning import clean
from jbodlab.metadata_log.metadata_log import MetadataLog
from jbodlab.metadata_log.settings import MetadataLogSettings
from jbodlab.metadata_log.snapshots import (
    PART_SUFFIX,
    Snapshot,
    decode_snapshot,
    prune,
    snapshot_name,
    snapshot_paths,
    take_latest,
)

READ_BYTES = 1 << 20


class MetadataCopy:
    """The files of `__cluster_metadata-0`; opens them.

    Raises:
        OSError: the directory fails.
    """

    def __init__(self, metadata_dir: Path, fs: FileSystem, settings: MetadataLogSettings) -> None:
        self._fs = fs
        self._settings = settings
        self._log = MetadataLog.open(
            metadata_dir,
            fs=fs,
            segment_bytes=settings.effective_segment_bytes,
            segment_ms=settings.segment_ms,
            is_copy=True,
        )

    @property
    def directory(self) -> Path:
        """The directory of its files."""
        return self._log.directory

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot that can be read."""
        return take_latest(self._fs, self._log.directory)

    def clean(self, now_ms: int) -> None:
        """Remove the oldest that is kept for nobody; `now_ms` is ms since 1970."""
        clean(self._log, self._settings, now_ms)

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

    def append(self, data: bytes) -> None:
        """Append whole batches at the end; not synced."""
        self._log.append(data)

    def drop(self) -> None:
        """Forget everything."""
        for path in snapshot_paths(self._log.directory, fs=self._fs):
            self._fs.unlink(path)
        self._log.reset_to(0)

    def replace_by_snapshot(self, data: bytes, end_offset: int, epoch: int) -> Snapshot:
        """Keep a snapshot that was received, and go on behind it.

        Raises:
            DecodeError: it is damaged or incomplete; nothing is changed then.
        """
        header, records = decode_snapshot(data)
        path = self._log.directory / snapshot_name(end_offset, epoch)
        part = path.with_name(path.name.removesuffix(".checkpoint") + PART_SUFFIX)
        self._fs.write_bytes(part, data, sync=True)
        self._fs.make_read_only(part)
        self._fs.rename(part, path)
        self._log.reset_to(end_offset, epoch)
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
