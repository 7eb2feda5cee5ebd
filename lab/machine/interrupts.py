"""Ctrl-C at any moment, without leaving anything behind.

SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread, once: what runs after the
first one is cleaning up, and a second Ctrl-C must not stop that half way. Around a step that makes
something which has to be written down to be found again (a process, a mount), the exception waits
until the step is over; so there is no moment in which the thing exists and nobody knows of it.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """The signals that end a command, and when they are let through."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._raised = False
        self._depth = 0

    def install(self) -> None:
        """Take over the signals; also where a shell had them ignored for a background job."""
        for number in SIGNALS:
            signal.signal(number, self._handle)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Let no signal interrupt the body; one that came meanwhile is raised after it.

        Raises:
            KeyboardInterrupt: a signal came, and none was raised before.
        """
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        self._raise_once()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
        self._raise_once()

    def _raise_once(self) -> None:
        if self.received is not None and not self._raised and self._depth == 0:
            self._raised = True
            raise KeyboardInterrupt
