"""The timers of one shard, of which the event loop sees only the earliest.

There are as many timers as members, and each heartbeat postpones one. A postponed entry stays at
its place in the heap; when its old time comes, it is inserted again with the new time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush

from broker.coordination.core import Timer
from jbodlab.vocabulary.loop_clock import loop_ms

Key = tuple[Hashable, ...]

SPARE_ENTRIES = 64
"""Entries of the heap beyond twice the timers; it is then made anew."""


class ShardTimers:
    """Calls `fire` with the key of each timer whose time has come.

    Args:
        loop: The event loop.
        wall_ms: The clock that the times of timers are given by.
        fire: Called on the loop; the timer is gone by then, and may be set again.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        wall_ms: Callable[[], int],
        fire: Callable[[Key], None],
    ) -> None:
        self._loop = loop
        self._wall_ms = wall_ms
        self._fire = fire
        # On the loop's clock: a wall clock that is set must neither end a session nor keep it.
        self._at_ms: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        """Time, a number that makes entries differ, key; no timer is without one in time."""
        self._number = 0
        self._handle: asyncio.TimerHandle | None = None
        self._handle_ms = 0

    def __len__(self) -> int:
        return len(self._at_ms)

    def set(self, timers: Iterable[Timer]) -> None:
        """Set timers, put them off, or take them away."""
        wall_is_ahead_ms = self._wall_ms() - loop_ms(self._loop)
        for key, wall_at_ms in timers:
            before = self._at_ms.get(key)
            if wall_at_ms is None:
                self._at_ms.pop(key, None)
                continue
            self._at_ms[key] = at_ms = wall_at_ms - wall_is_ahead_ms
            if before is None or at_ms < before:
                self._push(at_ms, key)
        if len(self._heap) > 2 * len(self._at_ms) + SPARE_ENTRIES:
            self._heap = [(at, number, key) for number, (key, at) in enumerate(self._at_ms.items())]
            heapify(self._heap)
            self._number = len(self._heap)
        self._arm()

    def clear(self) -> None:
        """Take all timers away."""
        self._at_ms.clear()
        self._heap.clear()
        self._arm()

    def _push(self, at_ms: int, key: Key) -> None:
        heappush(self._heap, (at_ms, self._number, key))
        self._number += 1

    def _arm(self) -> None:
        if not self._heap:
            if self._handle is not None:
                self._handle.cancel()
                self._handle = None
            return
        first_ms = self._heap[0][0]
        if self._handle is not None:
            if self._handle_ms <= first_ms:
                return
            self._handle.cancel()
        self._handle_ms = first_ms
        delay_s = max(first_ms - loop_ms(self._loop), 0) / 1000
        self._handle = self._loop.call_later(delay_s, self._due)

    def _due(self) -> None:
        self._handle = None
        now_ms = loop_ms(self._loop)
        due: list[Key] = []
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, key = heappop(self._heap)
            at_ms = self._at_ms.get(key)
            if at_ms is None:
                continue
            if at_ms > now_ms:
                self._push(at_ms, key)
            else:
                del self._at_ms[key]
                due.append(key)
        self._arm()
        for key in due:
            # One that fired before may have set this one anew.
            if key not in self._at_ms:
                self._fire(key)
