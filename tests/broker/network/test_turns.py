from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker.network.turns import TURN_S, Turns
from tests.waiting import DEADLINE_S, turns


class Clock:
    """Stands still unless it is set forward."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Worker:
    """Has so many things left to do, each of which takes some time."""

    def __init__(
        self, name: str, todo: int, took_s: float, shared: Turns, clock: Clock, done: list[str]
    ) -> None:
        self.name, self.todo, self.took_s = name, todo, took_s
        self.shared, self.clock, self.done = shared, clock, done

    def go_on(self) -> None:
        self.done.append(self.name)
        self.clock.now_s += self.took_s
        self.todo -= 1
        if self.todo:
            self.shared.later(self)


def run(test: Callable[[Clock, Turns], Awaitable[None]]) -> None:
    async def body() -> None:
        clock = Clock()
        await asyncio.wait_for(test(clock, Turns(clock)), DEADLINE_S)

    asyncio.run(body())


def test_a_turn_is_over_after_some_time_of_work() -> None:
    async def test(clock: Clock, shared: Turns) -> None:
        for _ in range(10):
            assert not shared.is_over()
            clock.now_s += TURN_S / 10
        clock.now_s += TURN_S / 10

        assert shared.is_over()

    run(test)


def test_a_pause_begins_another_turn() -> None:
    async def test(clock: Clock, shared: Turns) -> None:
        for _ in range(10):
            assert not shared.is_over()
            clock.now_s += 2 * TURN_S

    run(test)


def test_those_who_wait_go_on_one_after_the_other() -> None:
    async def test(clock: Clock, shared: Turns) -> None:
        done: list[str] = []
        for name in "abc":
            shared.later(Worker(name, 2, 0.0, shared, clock, done))
        assert shared.is_crowded
        await turns()

        assert "".join(done) == "abcabc"
        assert not shared.is_crowded

    run(test)


def test_others_are_looked_after_between_two_turns() -> None:
    async def test(clock: Clock, shared: Turns) -> None:
        done: list[str] = []
        for name in "abcd":
            shared.later(Worker(name, 1, TURN_S / 2, shared, clock, done))
        asyncio.get_running_loop().call_soon(lambda: done.append("other"))
        await turns()

        assert done == ["a", "b", "other", "c", "d"]

    run(test)


def test_who_has_ended_has_no_turn() -> None:
    async def test(clock: Clock, shared: Turns) -> None:
        done: list[str] = []
        ended = Worker("ended", 1, 0.0, shared, clock, done)
        shared.later(ended)
        shared.forget(ended)
        await turns()

        assert done == []
        assert not shared.is_crowded

    run(test)
