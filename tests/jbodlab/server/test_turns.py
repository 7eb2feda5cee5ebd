from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jbodlab.runtime.machine import system_environment
from jbodlab.server import turns
from jbodlab.server.answer import InParts, NoAnswer
from jbodlab.server.turns import SlicedWork, Turns, slices


def test_work_goes_on_where_a_slice_ended(monkeypatch: Any) -> None:
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    answer = InParts(range(2), lambda parts: NoAnswer(failure=str(parts)))
    work = SlicedWork(answer, system_environment().monotonic_s)

    assert [work.advance(), work.advance(), work.advance()] == [False, False, True]
    assert work.response() == NoAnswer(failure="[0, 1]")


async def test_others_get_a_turn_after_each_slice_of_parts_that_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    given = asyncio.get_running_loop().create_future()

    async def parts() -> AsyncIterator[int]:
        for each in await given:
            yield each
            yield None

    answer = InParts(parts(), lambda done: NoAnswer(failure=str(done)))
    work = SlicedWork(answer, system_environment().monotonic_s)
    assert not work.begin()
    task = asyncio.create_task(work.finish())
    given.set_result(range(3))

    turns_of_others = 0
    while not task.done():
        await asyncio.sleep(0)
        turns_of_others += 1

    assert task.result() == NoAnswer(failure="[0, 1, 2]")
    assert turns_of_others >= 6


def test_items_come_in_slices_the_last_of_which_may_be_short() -> None:
    assert list(slices(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(slices((), 2)) == []


async def test_one_of_those_that_take_turns_goes_on_in_a_turn_of_the_loop() -> None:
    shared, went_on = Turns(), 0

    async def work() -> None:
        nonlocal went_on
        await shared.next()
        went_on += 1

    tasks = [asyncio.create_task(work()) for _ in range(20)]
    seen = 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        assert went_on <= seen + 1
        seen = went_on
