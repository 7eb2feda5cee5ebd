"""Spaces bytes out to meet a rate.

Each chunk is due when the chunks before it have used their time. Unused time expires after a
moment, so the rate holds in every second and not only on average.
"""

from __future__ import annotations

BURST_S = 0.05
"""Time for which unused rate may be used later, since a thread never wakes exactly on time."""

CHUNK_BYTES = 1 << 20
"""Bytes that one call to the system copies: some hundred microseconds of a memory's time."""

CHUNKS_PER_SECOND = 20
"""Least number of chunks in a second where the rate is small."""


class Pace:
    """When the next bytes are due, at a rate of so many bytes in a second; times in seconds."""

    def __init__(self, rate: int | None) -> None:
        self.rate = rate
        self._next_s = 0.0

    def set_rate(self, rate: int | None, now_s: float) -> None:
        """Change the rate; None is without limit, 0 stops the copy."""
        self.rate = rate
        self._next_s = now_s

    @property
    def chunk_bytes(self) -> int:
        """How much to copy at a time."""
        if self.rate is None:
            return CHUNK_BYTES
        return max(1, min(CHUNK_BYTES, self.rate // CHUNKS_PER_SECOND))

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before the next bytes; infinite while the rate is 0."""
        if self.rate is None:
            return 0.0
        if self.rate == 0:
            return float("inf")
        return max(0.0, self._next_s - now_s)

    def took(self, size: int, now_s: float) -> None:
        """Count bytes that were copied."""
        if self.rate:
            self._next_s = max(self._next_s, now_s - BURST_S) + size / self.rate

    def gave_back(self, size: int) -> None:
        """Subtract bytes that were counted last but not copied."""
        if self.rate:
            self._next_s -= size / self.rate
