"""Limits the memory of all requests together: `queued.max.request.bytes`.

A request counts from the moment at which its bytes are stored until it is answered, including the
time that a Produce waits for followers. Beyond the limit the broker does not read from clients with
more than a few KiB here, and starts no large request. So the total is at most the limit, one more
request, and one read of at most 64 KiB from each other client. These clients are always read:
followers send small requests, and requests that wait for followers would otherwise wait for ever.

Source: `org.apache.kafka.common.memory.SimpleMemoryPool`, KIP-72.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class RequestMemory:
    """Counts the bytes of requests over all connections.

    Args:
        limit_bytes: None for no limit.

    Attributes:
        is_full: Whether no more may come in.
        moved_bytes: All that were ever stored, and all that ever ceased to be.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._limit_bytes = float("inf") if limit_bytes is None else limit_bytes
        self.is_full = self._limit_bytes <= 0
        self.moved_bytes = 0
        self._waiting: dict[Callable[[], None], None] = {}
        self._waking: asyncio.Handle | None = None
        self.used_bytes = 0

    def take(self, count: int) -> None:
        """Count bytes that are stored."""
        self.used_bytes += count
        self.moved_bytes += count
        self.is_full = self.used_bytes >= self._limit_bytes

    def give_back(self, count: int) -> None:
        """Count bytes that are stored no longer, and let in who waits for room."""
        assert count <= self.used_bytes
        self.used_bytes -= count
        self.moved_bytes += count
        self.is_full = self.used_bytes >= self._limit_bytes
        if self._waiting and self._waking is None and not self.is_full:
            # Not at once: who gives back is in the middle of something.
            self._waking = asyncio.get_running_loop().call_soon(self._wake)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back as soon as there is room, in the order of the calls."""
        self._waiting[callback] = None

    def wait_no_longer(self, callback: Callable[[], None]) -> None:
        """Forget a callback."""
        self._waiting.pop(callback, None)

    def _wake(self) -> None:
        self._waking = None
        while self._waiting and not self.is_full:
            callback = next(iter(self._waiting))
            del self._waiting[callback]
            callback()
