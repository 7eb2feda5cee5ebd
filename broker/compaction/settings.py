"""Settings of compaction that are the broker's own; those of single logs are in `LogConfig`."""

from __future__ import annotations

import msgspec

from jbodlab.config.key_table import Values

NO_LIMIT = 1e18
"""A rate above this is none; the default is the largest number that there is."""


class CleanerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of `log.cleaner.*`.

    Attributes:
        is_enabled: Whether logs are compacted at all.
        backoff_ms: Pause of a directory in which nothing was to be compacted.
        map_bytes: Memory for the keys, of all directories together.
        map_load_factor: Which part of it may be filled.
        bytes_per_second: Most bytes to read and to write, of all directories together; None is
            without limit.
    """

    is_enabled: bool = True
    backoff_ms: int = 15_000
    map_bytes: int = 128 << 20
    map_load_factor: float = 0.9
    bytes_per_second: float | None = None

    @classmethod
    def of(cls, values: Values) -> CleanerSettings:
        """Read the settings of a broker."""
        rate = values.number("log.cleaner.io.max.bytes.per.second")
        return cls(
            is_enabled=values.flag("log.cleaner.enable"),
            backoff_ms=values.integer("log.cleaner.backoff.ms"),
            map_bytes=values.integer("log.cleaner.dedupe.buffer.size"),
            map_load_factor=values.number("log.cleaner.io.buffer.load.factor"),
            bytes_per_second=rate if rate < NO_LIMIT else None,
        )
