from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from jbodlab.runtime import event_loop


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """As a program has it at its start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


async def answer(number: int) -> int:
    await asyncio.sleep(0)
    return number


def test_a_command_is_run_to_its_result() -> None:
    assert event_loop.run(answer(3)) == 3


@pytest.mark.parametrize("is_waiting", [True, False])
def test_ctrl_c_ends_a_wait_and_a_question_at_once_and_what_follows_is_done(
    *, is_waiting: bool
) -> None:
    done = []

    async def command() -> None:
        try:
            if is_waiting:
                asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
                await asyncio.sleep(60)
            # So a question to the user is interrupted, which blocks the loop.
            signal.raise_signal(signal.SIGINT)
        finally:
            done.append(await answer(1) if is_waiting else 1)

    with pytest.raises(KeyboardInterrupt):
        event_loop.run(command())
    assert done == [1]
