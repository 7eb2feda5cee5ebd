"""Idempotency keys: what a client repeats is carried out once."""

from __future__ import annotations

import asyncio

import pytest

from lab.api.once import KEPT, Once
from lab.api.problems import RequestError


class Counted:
    """An action that counts how often it is carried out, and waits until it may end."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> int:
        self.count += 1
        await self.may_end.wait()
        return self.count


def test_a_request_with_the_same_key_gets_the_answer_of_the_first() -> None:
    async def play() -> None:
        once, action = Once(), Counted()
        first, second = (asyncio.create_task(once.answer("k", b"a", action)) for _ in range(2))
        await asyncio.sleep(0)
        action.may_end.set()
        assert (await first, await second, await once.answer("k", b"a", action)) == (1, 1, 1)
        assert await once.answer("other", b"a", action) == 2

    asyncio.run(play())


def test_another_request_with_the_same_key_is_refused() -> None:
    async def play() -> None:
        once, action = Once(), Counted()
        action.may_end.set()
        await once.answer("k", b"a", action)
        with pytest.raises(RequestError) as refused:
            await once.answer("k", b"b", action)
        assert (refused.value.status, action.count) == (422, 1)

    asyncio.run(play())


def test_a_request_that_failed_is_carried_out_again() -> None:
    async def fail() -> None:
        raise RequestError(409, "not now")

    async def play() -> None:
        once, action = Once(), Counted()
        action.may_end.set()
        with pytest.raises(RequestError):
            await once.answer("k", b"a", fail)
        assert await once.answer("k", b"a", action) == 1

    asyncio.run(play())


def test_the_oldest_keys_are_forgotten() -> None:
    async def play() -> None:
        once, action = Once(), Counted()
        action.may_end.set()
        for number in range(KEPT + 1):
            await once.answer(str(number), b"a", action)
        assert await once.answer("0", b"a", action) == KEPT + 2
        assert await once.answer(str(KEPT), b"a", action) == KEPT + 1

    asyncio.run(play())
