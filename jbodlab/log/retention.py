"""Which segments of a log may go, and their files on the way out.

Only what lies below the high watermark may go, the oldest first, and a segment only while it is

* entirely below the log start, or
* too old: the newest of its records is older than `retention.ms`, or
* too much: without it the log still has `retention.bytes`.

Source: `kafka.log.UnifiedLog.deleteOldSegments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jbodlab.log import names
from jbodlab.log.filesystem import FileSystem
from jbodlab.log.log_config import LogConfig
from jbodlab.log.segment import Segment


def deletable_count(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
) -> int:
    """Return how many segments, from the oldest on, may go; all of them is a possible answer."""
    too_much = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for segment in segments:
        is_active = segment is segments[-1]
        if segment.next_offset > high_watermark or (is_active and segment.size == 0):
            break
        below_start = segment.next_offset <= log_start_offset and not is_active
        too_old = (
            config.deletes
            and config.retention_ms >= 0
            # Without timestamps nothing is known of its age.
            and segment.max_timestamp >= 0
            and now_ms - segment.max_timestamp > config.retention_ms
        )
        by_size = config.deletes and config.retention_bytes >= 0 and too_much >= segment.size
        if not (below_start or too_old or by_size):
            break
        too_much -= segment.size
        count += 1
    return count


class DeletedFiles:
    """Files with the suffix `.deleted`, each with the time from which it may be removed."""

    __slots__ = ("_due", "_fs")

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._due: list[tuple[int, tuple[str, ...]]] = []

    def add(self, segment: Segment, due_ms: int) -> None:
        """Close a segment and rename its files; after a crash the next start removes them."""
        segment.close()
        renamed: list[str] = []
        for suffix in (names.LOG_SUFFIX, *names.INDEX_SUFFIXES):
            path = segment.directory / (names.offset_text(segment.base_offset) + suffix)
            if suffix == names.TXN_INDEX_SUFFIX and not self._fs.exists(path):
                continue
            target = path.with_name(path.name + names.DELETED_SUFFIX)
            self._fs.rename(path, target, sync=False)
            renamed.append(target.name)
        self._due.append((due_ms, tuple(renamed)))

    def remove_expired(self, directory: Path, now_ms: int) -> int:
        """Remove what is due; returns how many segments that was.

        Args:
            directory: Where the files are by now; a partition directory may be renamed.
            now_ms: The current time.
        """
        expired = [entry for entry in self._due if entry[0] <= now_ms]
        for entry in expired:
            for name in entry[1]:
                self._fs.unlink(directory / name, missing_ok=True)
            self._due.remove(entry)
        return len(expired)
