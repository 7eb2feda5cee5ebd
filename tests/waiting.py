"""Waiting in tests: for what happens, never for time to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from broker.disk.directory.log_dir import LogDir

T = TypeVar("T")

DEADLINE_S = 10.0
TURNS = 50
"""No chain of callbacks that a test waits for is longer than this."""


async def turns(count: int = TURNS) -> None:
    """Let the loop do all that is ready, and what comes of it, however fast the machine is.

    An event that has not happened then waits for something else: another event, a socket, a timer.
    """
    for _ in range(count):
        await asyncio.sleep(0)


async def called(calls: Sequence[object]) -> None:
    """Return when something was called that notes its calls, and what it made ready is done."""
    async with asyncio.timeout(DEADLINE_S):
        while not calls:  # noqa: ASYNC110 - a list wakes nobody
            await asyncio.sleep(0.001)
    await turns()


async def quiet(log_dirs: Iterable[LogDir], rounds: int = 5) -> None:
    """Let the loop and the threads of these directories do all that is ready."""
    for _ in range(rounds):
        await turns()
        for log_dir in log_dirs:
            if log_dir.is_online:
                await log_dir.run(lambda: None)


class AdjustableLoop(asyncio.SelectorEventLoop):
    """A loop whose clock a test may set forward: timers until then are due at once."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


def set_forward(seconds: float) -> None:
    """Set the clock of the running `AdjustableLoop` forward."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AdjustableLoop)
    loop.ahead_s += seconds


async def pass_by(seconds: float, step_s: float = 0.01) -> None:
    """Let time pass by the clock of the running `AdjustableLoop`, timer by timer."""
    for _ in range(round(seconds / step_s)):
        set_forward(step_s)
        await turns(5)


def runner_on(*loop_factories: Callable[[], asyncio.AbstractEventLoop]) -> Any:
    """Return the fixture `runner` of a module whose tests run on each of these loops."""

    @pytest.fixture(name="runner", params=loop_factories, autouse=True)
    def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
        with asyncio.Runner(loop_factory=request.param) as runner:
            yield runner

    return runner


def run_adjustable(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an `AdjustableLoop`."""
    with asyncio.Runner(loop_factory=AdjustableLoop) as runner:
        return runner.run(main)
