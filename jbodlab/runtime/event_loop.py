"""The event loop of the servers, and that of a command."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop where it is installed (extra `fast`), else one of asyncio."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(command: Coroutine[Any, Any, T]) -> T:
    """Run a command, the only one of its thread, to its end.

    Ctrl-C raises KeyboardInterrupt wherever the command is, in a question to the user too, which
    `asyncio.run` would let wait. Cleaning up with coroutines is done before the command ends.
    """
    with asyncio.Runner() as runner:
        return runner.get_loop().run_until_complete(command)
