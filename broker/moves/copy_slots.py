"""How many moves may copy at the same time.

Source: `num.replica.alter.log.dirs.threads`, KIP-113.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jbodlab.vocabulary.ids import TopicPartition


class Slots:
    """So many at a time; of those that wait the smallest partition comes first."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[tuple[TopicPartition, int, asyncio.Future[None]]] = []
        self._number = 0

    @asynccontextmanager
    async def taken(self, topic_partition: TopicPartition) -> AsyncIterator[None]:
        """Wait for a slot, and give it back in the end."""
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._number += 1
            heapq.heappush(self._waiting, (topic_partition, self._number, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._give_back()
                raise
        try:
            yield
        finally:
            self._give_back()

    def _give_back(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
