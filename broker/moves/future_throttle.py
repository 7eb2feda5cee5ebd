"""Holds the bytes that all moves of a broker copy together to a rate.

`Pace` spaces the chunks out: each is due when those before it have had their time. What was not
used is not saved up, except for a moment, so that the rate holds in every second and not only on
average. Bytes of replication are not counted here.

Source: `replica.alter.log.dirs.io.max.bytes.per.second`, KIP-113.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from jbodlab.threads import Flag

BURST_S = 0.05
"""Time for which an unused rate may be made up for; a thread never wakes exactly when it should."""

WAIT_MAX_S = 0.25
"""A wait is cut into pieces of this length, so that a new rate counts at once."""

CHUNK_BYTES = 1 << 20
"""What is copied by one call to the system: some hundred microseconds of a memory's time."""

CHUNKS_PER_SECOND = 20
"""So many chunks at least make up a second where the rate is small."""


class Pace:
    """When the next bytes are due, at a rate of so many bytes in a second; times in seconds."""

    def __init__(self, rate: int | None) -> None:
        self.rate = rate
        self._next_s = 0.0

    def set_rate(self, rate: int | None, now_s: float) -> None:
        """Change the rate; None is without limit, 0 stops everything."""
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
        """Take back a part of what was counted last."""
        if self.rate:
            self._next_s -= size / self.rate


class MoveThrottle:
    """The pace of all moves, shared by their threads."""

    def __init__(
        self,
        rate: int | None = None,
        *,
        clock: Callable[[], float],
        lock: AbstractContextManager[object],
    ) -> None:
        self._pace = Pace(rate)
        self._clock = clock
        self._lock = lock
        self.copied_bytes = 0
        """Of all moves since the start."""

    @property
    def rate(self) -> int | None:
        """Bytes in a second, None without limit."""
        return self._pace.rate

    def set_rate(self, rate: int | None) -> None:
        """Change the rate, also for what is just under way."""
        with self._lock:
            self._pace.set_rate(rate, self._clock())

    def next_chunk(self, stop: Flag, *, is_paced: bool = True) -> int:
        """Wait until bytes may be copied; returns how many at most, 0 if it was told to stop.

        The chunk counts as copied at once, so that threads wait for each other; what it came short
        of is given back with `came_short`.
        """
        while not stop.is_set():
            with self._lock:
                now_s = self._clock()
                wait_s = self._pace.wait_s(now_s) if is_paced else 0.0
                if wait_s <= 0:
                    size = self._pace.chunk_bytes
                    self._pace.took(size, now_s)
                    self.copied_bytes += size
                    return size
            stop.wait(min(wait_s, WAIT_MAX_S))
        return 0

    def came_short(self, size: int) -> None:
        """Give back what was not copied of a chunk."""
        with self._lock:
            self._pace.gave_back(size)
            self.copied_bytes -= size
