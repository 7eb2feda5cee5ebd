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
    """Is raised once, on one thread, and seen on another; `threading.Event` is one."""

    def set(self) -> None:
        """Raise it."""

    def is_set(self) -> bool:
        """Return whether it is raised."""

    def wait(self, timeout: float, /) -> bool:
        """Wait until it is raised, or the seconds are over; returns whether it is raised."""


class Threads(Protocol):
    """Makes threads, and what they talk to each other with."""

    def start(self, work: Callable[[], None], name: str) -> None:
        """Run a function on a thread of its own.

        The thread does not keep the process from ending: it may hang on a dead disk.
        """

    def queue(self) -> CallQueue:
        """Return a queue."""

    def flag(self) -> Flag:
        """Return a flag that is not raised."""

    def lock(self) -> AbstractContextManager[object]:
        """Return what only one thread at a time gets into."""

    def lower_priority(self) -> None:
        """Lower the priority of the calling thread, for machines with few processors."""
