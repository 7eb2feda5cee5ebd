"""A future whose listener hears of its result in the same turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

Listener = Callable[[asyncio.Future[Any]], None]

_set_result = asyncio.Future[Any].set_result
"""Saves each response to a producer a `super()`."""


class PromptFuture(asyncio.Future[T]):
    """A future with one listener, which `succeed` calls at once.

    A future of asyncio calls what waits for it a turn of the loop later, and a turn asks the system
    for events. Any other end of this future reaches the listener a turn later, too: who fails or
    cancels is in the middle of a change, and the listener may ask about what changes.

    Attributes:
        listener: Called once with the future, and never with an exception of its own; None for
            nobody.
    """

    listener: Listener | None = None

    def succeed(self, result: T) -> None:
        """Set the result and call the listener."""
        _set_result(self, result)
        if self.listener is not None:
            self.listener(self)

    def set_result(self, result: T) -> None:
        """Set the result; the listener is called later."""
        super().set_result(result)
        self._tell_later()

    def set_exception(self, exception: type[BaseException] | BaseException, /) -> None:
        """Set the error; the listener is called later."""
        super().set_exception(exception)
        self._tell_later()

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the future; the listener is called later."""
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self._tell_later()
        return is_cancelled

    def _tell_later(self) -> None:
        if self.listener is not None:
            self.get_loop().call_soon(self.listener, self)
