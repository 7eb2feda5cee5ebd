"""Choice of the logs to compact in a directory, and the size of their dirty parts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import msgspec

from broker.disk.directory import LogInUse, OwnedLog
from jbodlab.config.key_table import LONG_MAX
from jbodlab.storage.compaction.compaction import DirtyRange, dirty_range, is_due
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.storage.log.segment_reader import SegmentReader
from jbodlab.storage.log.segments import ClosedSegment
from jbodlab.vocabulary.errors import CorruptRecordError


class Candidate(msgspec.Struct, frozen=True):
    """A log that compaction applies to, and what of it is dirty."""

    log: OwnedLog
    dirty: DirtyRange

    @property
    def needs_first_timestamps(self) -> bool:
        """Whether it depends on the age of the records that wait whether it is due."""
        return bool(
            self.dirty.cleanable_bytes
            and self.log.config.max_compaction_lag_ms < LONG_MAX
            and not self.is_due(0, ())
        )

    @property
    def room_bytes(self) -> int:
        """The most that a group of its segments needs while both are there."""
        sizes = [each.size for each in self.log.state.closed]
        return max([min(sum(sizes), self.log.config.segment_bytes), *sizes])

    def is_due(self, now_ms: int, first_timestamps: Sequence[int]) -> bool:
        """Return whether it is to be compacted; see `compaction.is_due`."""
        return is_due(self.dirty, self.log.config, now_ms, first_timestamps)

    def dirty_places(self) -> list[ClosedSegment]:
        """Return the segments that wait."""
        found = self.log.state.closed_from(self.dirty.first_dirty)
        return [each for each in found if each.base_offset < self.dirty.first_uncleanable]


def candidates(logs: Sequence[LogInUse], now_ms: int) -> list[Candidate]:
    """Return the logs that compaction applies to; a copy follows the log that it is a copy of."""
    return [
        Candidate(log, dirty_range(log.state, log.state.last_stable_offset(high_watermark), now_ms))
        for log, high_watermark in logs
        if log.config.compacts and not log.files.is_future
    ]


def damage_is_there(log: OwnedLog, base_offset: int) -> Callable[[], bool]:
    """Return what tells whether damage that was met in a segment may still be there.

    It goes with the segment, which retention, a deletion of records, a cut or a move takes away,
    and where the log begins later in the segment. A segment copied anew after a cut may have the
    very bounds of before.
    """
    files, cuts, former = log.files, log.state.cut_count, _closed_at(log, base_offset)
    start = max(base_offset, log.start_offset)

    def is_there() -> bool:
        return (
            log.files is files
            and log.state.cut_count == cuts
            and log.start_offset <= start
            and _closed_at(log, base_offset) == former
        )

    return is_there


def _closed_at(log: OwnedLog, base_offset: int) -> ClosedSegment | None:
    closed = log.state.closed
    return next((each for each in closed if each.base_offset == base_offset), None)


def first_headers(files: LogFiles, fs: FileSystem, segments: Sequence[ClosedSegment]) -> list[int]:
    """Return the timestamp of the first batch of each segment, as far as there is one."""
    found = []
    for segment in segments:
        path = files.path(segment.base_offset)
        with contextlib.suppress(FileNotFoundError, CorruptRecordError):
            source = fs.open_source(path)
            try:
                header = SegmentReader(source, path, segment.size).first_header()
            finally:
                source.close()
            if header is not None:
                found.append(header.max_timestamp)
    return found
