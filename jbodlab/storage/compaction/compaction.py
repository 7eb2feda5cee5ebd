"""Which log to compact, how much of it, and which of its segments to merge.

    log start      first dirty      first uncleanable       active segment
        |---- clean ----|---- cleanable ----|---- not yet ----|--------

Below *first dirty* each key has one record at most. A round maps the keys between there and *first
uncleanable*, and drops the records, from the log's start on, that these keys supersede. It does not
clean records at or above the last stable offset, which are not decided and replicated yet, the
active segment, and records younger than `min.compaction.lag.ms`.

Sizes are in bytes, times in ms.

Source: `org.apache.kafka.storage.internals.log.LogCleanerManager`, `Cleaner`; KIP-354.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_state import LogState
from jbodlab.storage.log.segments import RELATIVE_OFFSET_MAX, ClosedSegment


class DirtyRange(NamedTuple):
    """The dirty part of a log.

    Attributes:
        first_dirty: Offset below which the log is clean.
        first_uncleanable: Offset at which a round would end.
        clean_bytes: Bytes of the segments below the first dirty one.
        cleanable_bytes: Bytes of the segments between the two offsets.
    """

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int

    @property
    def ratio(self) -> float:
        """Dirty bytes as a part of all bytes that a round would read, 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def dirty_range(log: LogState, last_stable_offset: int, now_ms: int) -> DirtyRange:
    """Return the range of a log that a round would clean.

    Args:
        log: The log.
        last_stable_offset: All records below it are replicated, and their transactions decided.
        now_ms: Milliseconds since 1970.
    """
    cleaned_to = log.cleaned_to
    first_dirty = log.start_offset
    if cleaned_to is not None and first_dirty <= cleaned_to <= log.end_offset:
        first_dirty = cleaned_to
    end = min(last_stable_offset, log.active.base_offset)
    youngest = now_ms - log.config.min_compaction_lag_ms
    dirty = log.closed_from(first_dirty)
    if log.config.min_compaction_lag_ms > 0:
        end = min([end, *(each.base_offset for each in dirty if each.max_timestamp > youngest)])
    end = max(end, first_dirty)
    cleanable = sum(each.size for each in dirty if each.base_offset < end)
    clean = sum(each.size for each in log.closed) - sum(each.size for each in dirty)
    return DirtyRange(first_dirty, end, clean, cleanable)


def is_due(
    dirty: DirtyRange, config: LogConfig, now_ms: int, first_timestamps: Sequence[int] = ()
) -> bool:
    """Return whether a log needs compaction.

    Args:
        dirty: The range to clean.
        config: Settings of the log.
        now_ms: Milliseconds since 1970.
        first_timestamps: Timestamps of the first batch of each segment to clean; used only if
            `max.compaction.lag.ms` is set.
    """
    if not dirty.cleanable_bytes or dirty.first_uncleanable <= dirty.first_dirty:
        return False
    if dirty.ratio > config.min_cleanable_dirty_ratio:
        return True
    oldest = min((each for each in first_timestamps if each >= 0), default=now_ms)
    return now_ms - oldest > config.max_compaction_lag_ms


class SourceSegment(NamedTuple):
    """A closed segment that is to be cleaned, with the sizes of its files.

    Attributes:
        next_base: Base offset of the one behind it.
    """

    segment: ClosedSegment
    next_base: int
    index_size: int
    time_index_size: int


def group_segments(
    sources: Sequence[SourceSegment], segment_bytes: int, index_bytes: int
) -> list[tuple[SourceSegment, ...]]:
    """Return the segments in groups; a round merges each group into one segment if possible.

    The records that stay in a group fit into one segment even if all stay. A segment that is larger
    already forms a group alone.

    Args:
        sources: Segments in the order of the log, without gaps between them.
        segment_bytes: Largest size of a segment.
        index_bytes: Largest size of each of its indexes.
    """
    groups: list[tuple[SourceSegment, ...]] = []
    group: tuple[SourceSegment, ...] = ()
    for source in sources:
        joined = (*group, source)
        if group and (
            sum(each.segment.size for each in joined) > segment_bytes
            or sum(each.index_size for each in joined) > index_bytes
            or sum(each.time_index_size for each in joined) > index_bytes
            # Offsets between segments may be missing, so the last offset alone is not enough.
            or source.next_base - 1 - group[0].segment.base_offset > RELATIVE_OFFSET_MAX
        ):
            groups.append(group)
            joined = (source,)
        group = joined
    return [*groups, group] if group else groups
