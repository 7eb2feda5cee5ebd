"""Which segments of a log may be deleted.

Only segments below the high watermark may be deleted, the oldest first, and a segment only if it is

* entirely below the log start, or
* too old: its newest record is older than `retention.ms`, or this record has had a timestamp in the
  future for longer than `retention.ms`. Without the second rule a timestamp in a wrong unit would
  keep the segment, and all segments behind it, for ever, or
* too much: without it the log still has `retention.bytes`.

Source: `kafka.log.UnifiedLog.deleteOldSegments`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.segments import ActiveSegment, ClosedSegment


class Ahead(NamedTuple):
    """A segment whose newest record has a time in the future.

    Attributes:
        next_offset: Offset behind its last batch.
        since_ms: When retention first saw it so, with this end, in ms since 1970.
    """

    next_offset: int
    since_ms: int


def segments_ahead(
    segments: Sequence[ClosedSegment | ActiveSegment], before: Mapping[int, Ahead], now_ms: int
) -> dict[int, Ahead]:
    """Return the segments with a time in the future, by base offset.

    Args:
        segments: Segments of the log.
        before: Result of the last call. After a start the time of the appends is unknown, so that
            the time of each segment restarts.
        now_ms: Milliseconds since 1970.
    """
    found = {}
    for segment in segments:
        if segment.max_timestamp > now_ms:
            known = before.get(segment.base_offset)
            is_same = known is not None and known.next_offset == segment.next_offset
            since_ms = min(known.since_ms, now_ms) if known is not None and is_same else now_ms
            found[segment.base_offset] = Ahead(segment.next_offset, since_ms)
    return found


def deletable_count(
    segments: Sequence[ClosedSegment | ActiveSegment],
    config: LogConfig,
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
    ahead: Mapping[int, Ahead],
) -> int:
    """Return how many segments, from the oldest on, may go; all of them is a possible answer."""
    too_much = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for number, segment in enumerate(segments):
        is_active = segment is segments[-1]
        if segment.next_offset > high_watermark or (is_active and segment.size == 0):
            break
        # Compaction may have emptied the first segment; the segment stays for its base offset.
        below_start = not is_active and segments[number + 1].base_offset <= log_start_offset
        too_old = (
            config.deletes
            and config.retention_ms >= 0
            # The age of a segment without timestamps is unknown.
            and segment.max_timestamp >= 0
            and now_ms - _newest_ms(segment, ahead) > config.retention_ms
        )
        by_size = config.deletes and config.retention_bytes >= 0 and too_much >= segment.size
        if not (below_start or too_old or by_size):
            break
        too_much -= segment.size
        count += 1
    return count


def _newest_ms(segment: ClosedSegment | ActiveSegment, ahead: Mapping[int, Ahead]) -> int:
    """Return from when on a segment ages."""
    known = ahead.get(segment.base_offset)
    return segment.max_timestamp if known is None else known.since_ms
