"""Limits that all connections of a broker share, and their periodic checks.

Idle connections are closed, and memory of a burst of requests is returned to the system when
traffic has decreased.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jbodlab.kafka_wire.framing import MAX_FRAME_BYTES, new_scratch
from jbodlab.metadata.image.settings_image import Quotas
from jbodlab.runtime.environment import Environment
from jbodlab.server.connection_rate import ConnectionRate
from jbodlab.server.fair_turns import FairTurns
from jbodlab.server.malloc import MemoryReturn
from jbodlab.server.open_connections import ConnectionLimits, OpenConnections
from jbodlab.server.request_memory import RequestMemory

LOOK_S_MIN, LOOK_S_MAX = 0.05, 2.0


class Bounds:
    """Lives on the event loop; made for all listeners of one broker.

    Args:
        environment: Gives the clock, and the thread that returns memory.
        limits: Of connections.
        quotas: Returns the quotas of the metadata; those of addresses count here.
        queued_max_request_bytes: Of all requests together; None for no limit.
        max_request_bytes: Of one request; a larger one closes its connection.
    """

    def __init__(
        self,
        environment: Environment,
        limits: ConnectionLimits | None = None,
        *,
        quotas: Callable[[], Quotas] = dict,
        queued_max_request_bytes: int | None = None,
        max_request_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        limits = limits or ConnectionLimits()
        self._loop = asyncio.get_running_loop()
        idle_s = limits.max_idle_ms / 1000
        self._look_s = LOOK_S_MAX if idle_s < 0 else min(max(idle_s / 2, LOOK_S_MIN), LOOK_S_MAX)
        self._timer: asyncio.TimerHandle | None = None
        self.held_max = limits.waiting
        """Most connections of a listener that are held, as they came too fast."""
        self.max_request_bytes = max_request_bytes
        self.connections = OpenConnections(limits, self._loop.time)
        self.rate = ConnectionRate(quotas, self._loop.time)
        self.memory_return = MemoryReturn(environment.threads.start)
        self.memory = RequestMemory(queued_max_request_bytes)
        self.turns = FairTurns(self._loop, environment.monotonic_s)
        self.scratch = new_scratch()
        """Where every connection receives; nothing stays there between two of the loop's calls."""

    def start(self) -> None:
        """Begin to look after them."""
        self._timer = self._loop.call_later(self._look_s, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self.start()
        self.connections.close_idle()
        self.memory_return.look(self.memory.moved_bytes)
