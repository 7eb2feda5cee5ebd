"""Many timers, one of the event loop's."""

from __future__ import annotations

import asyncio

from broker.coordination.core import Timer
from broker.coordination.timers import SPARE_ENTRIES, Key, ShardTimers
from tests.waiting import set_forward, turns


class Clock:
    """Fires into a list; the wall clock runs with the loop's."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.fired: list[Key] = []
        self.ahead_ms = 0
        self.timers = ShardTimers(self.loop, self.now_ms, self.fire)

    def now_ms(self) -> int:
        return round(self.loop.time() * 1000) + self.ahead_ms

    def fire(self, key: Key) -> None:
        self.fired.append(key)

    def set(self, name: str, in_ms: int | None) -> None:
        self.timers.set([Timer((name,), None if in_ms is None else self.now_ms() + in_ms)])


async def test_timers_fire_in_their_order_and_those_put_off_at_their_new_time() -> None:
    clock = Clock()
    clock.set("late", 30_000)
    clock.set("first", 10_000)
    clock.set("put off", 10_000)
    clock.set("earlier", 60_000)
    clock.set("gone", 10_000)
    clock.set("put off", 20_000)
    clock.set("earlier", 25_000)
    clock.set("gone", None)

    for seconds, fired in ((11, ["first"]), (10, ["put off"]), (5, ["earlier"]), (5, ["late"])):
        set_forward(seconds)
        await turns()
        assert clock.fired == [(name,) for name in fired]
        clock.fired.clear()
    assert len(clock.timers) == 0


async def test_timer_that_is_put_off_again_and_again_takes_no_memory() -> None:
    clock = Clock()
    for number in range(1000):
        clock.set("session", 10_000 + number)
        clock.set("other", 50_000 - number)

    assert len(clock.timers._heap) <= 4 + SPARE_ENTRIES
    set_forward(12)
    await turns()
    assert clock.fired == [("session",)]


async def test_nothing_fires_after_the_end() -> None:
    clock = Clock()
    clock.set("one", 10)
    clock.timers.clear()
    set_forward(1)
    await turns()
    assert clock.fired == []


async def test_a_wall_clock_that_is_set_moves_no_timer() -> None:
    for step_ms in (-3_600_000, 3_600_000):
        clock = Clock()
        clock.set("session", 10_000)

        clock.ahead_ms = step_ms
        clock.set("other", 8_000)
        set_forward(9)
        await turns()
        assert clock.fired == [("other",)]

        set_forward(2)
        await turns()
        assert clock.fired == [("other",), ("session",)]
