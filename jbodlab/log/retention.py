"""Which segments of a log may go.

Only what lies below the high watermark may go, the oldest first, and a segment only while it is

* entirely below the log start, or
* too old: the newest of its records is older than `retention.ms`, or
* too much: without it the log still has `retention.bytes`.

Source: `kafka.log.UnifiedLog.deleteOldSegments`.
"""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.log.log_config import LogConfig
from jbodlab.log.segments import ActiveSegment, ClosedSegment


def deletable_count(
    segments: Sequence[ClosedSegment | ActiveSegment],
    config: LogConfig,
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
) -> int:
    """Return how many segments, from the oldest on, may go; all of them is a possible answer."""
    too_much = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for number, segment in enumerate(segments):
        is_active = segment is segments[-1]
        if segment.next_offset > high_watermark or (is_active and segment.size == 0):
            break
        # Of a segment at the start compaction may have left nothing; it stays for its offset.
        below_start = not is_active and segments[number + 1].base_offset <= log_start_offset
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
