"""Interfaces of threads: start one, pass calls to it, and tell it to stop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol


class CallQueue(Protocol):
    """Takes items on one thread and gives them to another, first in, first out."""

    def put(self, item: Any, /) -> None:
        """Append an item."""

    def get(self) -> Any:
        """Return the next item; waits until there is one."""


class Flag(Protocol):
    """A flag that one thread sets once and another reads; `threading.Event` is one."""

    def set(self) -> None:
        """Set the flag."""

    def is_set(self) -> bool:
        """Return whether the flag is set."""

    def wait(self, timeout: float, /) -> bool:
        """Wait until the flag is set, at most `timeout` seconds; returns whether it is set."""


class Threads(Protocol):
    """Makes threads, and the queues, flags and locks that they share."""

    def start(self, work: Callable[[], None], name: str) -> None:
        """Run a function on a new thread.

        The thread does not keep the process from ending, as it may hang on a dead disk.
        """

    def queue(self) -> CallQueue:
        """Return a queue."""

    def flag(self) -> Flag:
        """Return a flag that is not set."""

    def lock(self) -> AbstractContextManager[object]:
        """Return a lock that one thread at a time can hold."""

    def lower_priority(self) -> None:
        """Lower the priority of the calling thread, for machines with few processors."""
