"""Removes the oldest part of a metadata log and its snapshots.

After each removal the state can still be loaded: the newest snapshot always stays, and the log
begins at the end of the oldest snapshot or before it. Each step removes the oldest part, which is
the log below the oldest snapshot, or that snapshot with the log up to the next one.

Source: `org.apache.kafka.raft.internals.KafkaRaftLog`, which never drops the log below its only
snapshot.
"""

from __future__ import annotations

import logging
from collections import deque
from pathlib import Path

import msgspec

from jbodlab.metadata.log import snapshots
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.storage.directory.filesystem import FileSystem

logger = logging.getLogger(__name__)


class _Kept(msgspec.Struct, frozen=True):
    path: Path
    end_offset: int
    size_bytes: int
    timestamp_ms: int | None


def clean(log: MetadataLog, settings: MetadataLogSettings, now_ms: int) -> int:
    """Remove the oldest parts until log and snapshots are within the limits, or no more can go.

    Call it on the thread of the log; no other code may remove snapshots meanwhile.

    Args:
        log: The log.
        settings: The limits of size and age.
        now_ms: Wall clock, ms since 1970.

    Returns:
        How many bytes were removed.

    Raises:
        OSError: the disk.
    """
    kept = deque(
        _kept(log.fs, path) for path in reversed(snapshots.snapshot_paths(log.directory, fs=log.fs))
    )
    if not kept:
        return 0
    checked = False
    removed = 0
    while _is_over(log, kept, settings, now_ms):
        if not checked and not snapshots.is_complete(log.fs, kept[-1].path):
            # Everything below would go for its sake.
            logger.error(
                "the newest metadata snapshot is damaged; keeping the log",
                extra={"path": str(kept[-1].path)},
            )
            return 0
        checked = True
        dropped = log.delete_segments_below(kept[0].end_offset)
        if not dropped:
            if len(kept) == 1:
                break
            oldest = kept.popleft()
            snapshots.delete_snapshot(log.fs, oldest.path)
            dropped = oldest.size_bytes + log.delete_segments_below(kept[0].end_offset)
        removed += dropped
    if removed:
        logger.info(
            "removed the oldest metadata",
            extra={"removed_bytes": removed, "log_start_offset": log.start_offset},
        )
    return removed


def _kept(fs: FileSystem, path: Path) -> _Kept:
    end_offset, _ = snapshots.parse_name(path.name)
    return _Kept(path, end_offset, fs.size(path), snapshots.read_timestamp_ms(fs, path))


def _is_over(
    log: MetadataLog, kept: deque[_Kept], settings: MetadataLogSettings, now_ms: int
) -> bool:
    size_bytes = log.size_bytes + sum(each.size_bytes for each in kept)
    if 0 <= settings.retention_bytes < size_bytes:
        return True
    oldest = kept[0].timestamp_ms
    return oldest is not None and 0 <= settings.retention_ms < now_ms - oldest
