"""Runs tests that are coroutine functions, and what they are given, on a loop of their own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest


def run_async_test(
    test: pytest.Function, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> bool | None:
    """Run a test if it is a coroutine function; None if it is not.

    Fixtures that are asynchronous context managers are entered on the loop of the test, in the
    order of its parameters; the test gets what they yield.
    """
    if not inspect.iscoroutinefunction(test.obj):
        return None

    async def run() -> None:
        async with AsyncExitStack() as stack:
            arguments = {}
            for name in inspect.signature(test.obj).parameters:
                value = test.funcargs[name]
                if isinstance(value, AbstractAsyncContextManager):
                    value = await stack.enter_async_context(value)
                arguments[name] = value
            await test.obj(**arguments)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run())
    return True
