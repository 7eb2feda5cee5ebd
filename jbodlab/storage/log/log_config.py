"""Settings of one log, under their topic-level names."""

from __future__ import annotations

import msgspec

DAY_MS = 24 * 60 * 60 * 1000


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of its topic that a log uses; the defaults are Kafka's."""

    segment_bytes: int = 1 << 30
    """A segment is rolled before an append that would make it larger."""
    segment_ms: int = 7 * DAY_MS
    """A segment is rolled when the append is later than its first batch by more than this."""
    segment_index_bytes: int = 10 << 20
    """Room of one index file; a full one rolls the segment."""
    index_interval_bytes: int = 4096
    """An index entry is made when more than this was appended since the last one."""
    retention_ms: int = 7 * DAY_MS
    """Age of the newest record at which a segment is deleted; -1 never."""
    retention_bytes: int = -1
    """Size of the log above which old segments are deleted; -1 without limit."""
    cleanup_policy: str = "delete"
    """`delete`, `compact` or both with a comma; retention applies only to the first."""
    min_cleanable_dirty_ratio: float = 0.5
    """Part of a log that must be dirty before it is compacted."""
    min_compaction_lag_ms: int = 0
    """Younger records are not compacted."""
    max_compaction_lag_ms: int = 2**63 - 1
    """Records that have waited longer are compacted, however small their share of the log is."""
    delete_retention_ms: int = DAY_MS
    """How long a tombstone stays after the first round of compaction that met it."""
    file_delete_delay_ms: int = 60_000
    """How long a deleted segment stays as a `.deleted` file."""
    flush_messages: int = 2**63 - 1
    """Offsets appended since the last flush at which an append flushes."""

    @property
    def deletes(self) -> bool:
        """Whether retention by time and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether the log may have gaps where records were superseded."""
        return "compact" in self.cleanup_policy
