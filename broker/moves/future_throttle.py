"""Limits the rate at which all moves of a broker together copy bytes.

Bytes of replication do not count. Unused time expires after a moment, so the rate holds in every
second and not only on average.

Source: `replica.alter.log.dirs.io.max.bytes.per.second`, KIP-113.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from broker.bounds.limits import THROTTLE_WAIT_MAX_S
from jbodlab.vocabulary.threads import Flag
from jbodlab.vocabulary.token_bucket import TokenBucket

BURST_S = 0.05
"""Time for which an unused rate may be made up for; a thread never wakes exactly when it should."""

CHUNK_BYTES = 1 << 20
"""Bytes that one call to the system copies: some hundred microseconds of a memory's time."""

CHUNKS_PER_SECOND = 20
"""Least number of chunks in a second where the rate is small."""


class MoveThrottle:
    """The pace of all moves, shared by their threads."""

    def __init__(
        self,
        rate: int | None = None,
        *,
        clock: Callable[[], float],
        lock: AbstractContextManager[object],
    ) -> None:
        self._clock = clock
        self._lock = lock
        self.copied_bytes = 0
        """Of all moves since the start."""
        self.set_rate(rate)

    def set_rate(self, rate: int | None) -> None:
        """Change the rate, also for what is just under way.

        Args:
            rate: Bytes in a second; None is without limit, 0 stops everything.
        """
        with self._lock:
            self.rate = rate
            self._bucket = None if rate is None else TokenBucket.empty(rate, BURST_S, self._clock())

    def next_chunk(self, stop: Flag, *, is_paced: bool = True) -> int:
        """Wait until bytes may be copied; returns how many at most, 0 if it was told to stop.

        The chunk counts as copied at once, so that threads wait for each other; what it came short
        of is given back with `came_short`.
        """
        while not stop.is_set():
            with self._lock:
                now_s, bucket = self._clock(), self._bucket
                wait_s = 0.0 if bucket is None or not is_paced else bucket.debt_s(now_s)
                if wait_s <= 0:
                    size = CHUNK_BYTES
                    if self.rate is not None:
                        size = max(1, min(size, self.rate // CHUNKS_PER_SECOND))
                    self._count(size, now_s)
                    return size
            stop.wait(min(wait_s, THROTTLE_WAIT_MAX_S))
        return 0

    def came_short(self, size: int) -> None:
        """Give back what was not copied of a chunk."""
        with self._lock:
            self._count(-size, self._clock())

    def _count(self, size: int, now_s: float) -> None:
        self.copied_bytes += size
        if self._bucket is not None:
            self._bucket = self._bucket.taken(size, now_s)
