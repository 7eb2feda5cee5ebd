from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from msgspec.structs import replace

from jbodlab.runtime.machine import system_environment
from jbodlab.server.bounds import LOOK_S_MAX, Bounds
from jbodlab.server.malloc import WORTH_RETURNING_BYTES
from jbodlab.server.open_connections import ConnectionLimits
from jbodlab.vocabulary.threads import CallQueue, Flag
from tests.jbodlab.server.fakes import FakeConnection
from tests.waiting import AdjustableLoop, runner_on, set_forward, turns

runner = runner_on(AdjustableLoop)


class NotedThreads:
    """Starts nothing."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def start(self, work: Callable[[], None], name: str) -> None:
        self.started.append(name)

    def queue(self) -> CallQueue:
        raise AssertionError

    def flag(self) -> Flag:
        raise AssertionError

    def lock(self) -> AbstractContextManager[Any]:
        raise AssertionError

    def lower_priority(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("max_idle_ms", [100, 3_000, 600_000])
async def test_idle_connections_are_looked_for_all_the_time(max_idle_ms: int) -> None:
    bounds = Bounds(system_environment(), ConnectionLimits(max_idle_ms=max_idle_ms))
    bounds.start()
    for _ in range(2):
        connection = FakeConnection()
        bounds.connections.add(connection)
        set_forward(max_idle_ms / 1000 + LOOK_S_MAX)
        await turns()
        assert connection.closed
        bounds.connections.remove(connection)
    bounds.stop()


async def test_memory_goes_back_when_the_traffic_is_over() -> None:
    threads = NotedThreads()
    bounds = Bounds(replace(system_environment(), threads=threads))
    bounds.start()
    bounds.memory_return.moved_bytes += WORTH_RETURNING_BYTES
    set_forward(LOOK_S_MAX)
    await turns()
    assert threads.started == []

    set_forward(LOOK_S_MAX)
    await turns()
    assert threads.started == ["malloc-trim"]
    bounds.stop()
