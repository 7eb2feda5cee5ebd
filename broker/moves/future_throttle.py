"""Limits the rate at which all moves of a broker together copy bytes.

Bytes of replication do not count.

Source: `replica.alter.log.dirs.io.max.bytes.per.second`, KIP-113.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from broker.limits import THROTTLE_WAIT_MAX_S
from jbodlab.runtime.pace import Pace
from jbodlab.runtime.threads import Flag


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
            stop.wait(min(wait_s, THROTTLE_WAIT_MAX_S))
        return 0

    def came_short(self, size: int) -> None:
        """Give back what was not copied of a chunk."""
        with self._lock:
            self._pace.gave_back(size)
            self.copied_bytes -= size
