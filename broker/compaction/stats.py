"""Statistics of the compaction rounds of one directory."""

from __future__ import annotations

import msgspec


class RoundStats(msgspec.Struct, frozen=True, kw_only=True):
    """One round that came to its end.

    Attributes:
        seconds: How long it took.
        bytes_before: Size of the segments that were cleaned.
        bytes_after: Size of the segments that replace them.
        utilization: Which part of the memory for keys was filled.
        ended_ms: When, in ms since 1970.
    """

    seconds: float
    bytes_before: int
    bytes_after: int
    utilization: float
    ended_ms: int

    @property
    def recopy_percent(self) -> int:
        """Which part of the bytes it has kept."""
        return 100 * self.bytes_after // max(1, self.bytes_before)


class CleanerStats:
    """The rounds of one directory.

    Attributes:
        rounds: How many came to their end.
        failures: How many failed: neither called off nor for want of room or of the directory.
        last: The last one of them.
        looked_ms: When the worker looked for something to do, in ms since 1970; a worker that is
            stuck does not.
    """

    def __init__(self) -> None:
        self.rounds = 0
        self.failures = 0
        self.last: RoundStats | None = None
        self.looked_ms: int | None = None

    def looked(self, now_ms: int) -> None:
        """Take notice that the worker is alive."""
        self.looked_ms = now_ms

    def cleaned(self, stats: RoundStats) -> None:
        """Take notice of a round."""
        self.rounds += 1
        self.last = stats
