"""The settings of a metadata log, the same on controllers and brokers.

Source: `org.apache.kafka.raft.MetadataLogConfig`, `ServerLogConfigs`.
"""

from __future__ import annotations

import msgspec

from jbodlab.config.key_table import Values

SEGMENTS_PER_RETENTION = 4
"""Segments that fit into `metadata.max.retention.bytes`. Only whole segments can be removed, so
with Kafka's segments of 1 GiB a limit of 100 MiB would have no effect."""
SEGMENT_BYTES_MIN = 64 * 1024


class MetadataLogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When segments end, when a snapshot is written, and how much history is kept.

    Attributes:
        snapshot_interval_ms: Longest time between two snapshots if a record was written; 0 for no
            such time.
        retention_bytes: Size of log and snapshots above which the oldest are removed; negative for
            no limit.
        retention_ms: Age at which a snapshot is removed; negative for no limit.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    bytes_between_snapshots: int = 20_971_520
    snapshot_interval_ms: int = 3_600_000
    retention_bytes: int = 104_857_600
    retention_ms: int = 604_800_000

    @property
    def effective_segment_bytes(self) -> int:
        """Size at which a segment ends, small enough for the retention to work."""
        if self.retention_bytes < 0:
            return self.segment_bytes
        share = max(self.retention_bytes // SEGMENTS_PER_RETENTION, SEGMENT_BYTES_MIN)
        return min(self.segment_bytes, share)


def metadata_log_settings(values: Values) -> MetadataLogSettings:
    """Read the settings.

    Raises:
        ConfigError: a setting is not a number, or out of range.
    """
    return MetadataLogSettings(
        segment_bytes=values.integer("metadata.log.segment.bytes"),
        segment_ms=values.integer("metadata.log.segment.ms"),
        bytes_between_snapshots=values.integer("metadata.log.max.record.bytes.between.snapshots"),
        snapshot_interval_ms=values.integer("metadata.log.max.snapshot.interval.ms"),
        retention_bytes=values.integer("metadata.max.retention.bytes"),
        retention_ms=values.integer("metadata.max.retention.ms"),
    )
