from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jbodlab.runtime.prompt_future import PromptFuture


async def test_a_listener_hears_of_a_success_at_once() -> None:
    heard: list[Any] = []
    future: PromptFuture[int] = PromptFuture()
    future.listener = heard.append

    future.succeed(7)

    assert heard == [future]
    await asyncio.sleep(0)
    assert heard == [future]
    assert await future == 7


@pytest.mark.parametrize(
    "end",
    [
        lambda future: future.set_result(7),
        lambda future: future.set_exception(OSError()),
        lambda future: future.cancel(),
    ],
)
async def test_a_listener_hears_of_any_other_end_in_the_next_turn(
    end: Callable[[PromptFuture[int]], object],
) -> None:
    heard: list[Any] = []
    future: PromptFuture[int] = PromptFuture()
    future.listener = heard.append

    end(future)

    assert not heard
    await asyncio.sleep(0)
    assert heard == [future]
    future.cancelled() or future.exception()
