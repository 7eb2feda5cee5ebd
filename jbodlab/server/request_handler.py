"""The interface between a connection and the handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from jbodlab.server.session import Session

Buffers = Sequence[bytes | bytearray | memoryview]
"""A whole response, size field included, in pieces; empty where nothing is to be sent."""


class Pending(msgspec.Struct):
    """A response that is not there yet.

    `buffers` gives it once `future` is done, and may raise to have the connection closed. The
    connection cancels `future` when it is lost first. `hurry` is called when another request waits
    behind this one.
    """

    future: asyncio.Future[Any]
    buffers: Callable[[], Buffers]
    hurry: Callable[[], None] | None = None
    overlaps: bool = True
    """Whether a pipelined request may start behind this one before it is answered."""
    appends: bool = False
    """Whether the request has records: what it waits for may be that these are appended."""
    size_bytes: int = 0
    """Size of the request, which the connection that waits for the response notes here."""

    @property
    def is_pipelined(self) -> bool:
        """Whether the next request with records may start behind this one."""
        return self.appends and self.overlaps


class RequestHandler(Protocol):
    """Answers the requests of all connections."""

    def is_pipelined(self, frame: memoryview) -> bool:
        """Return whether the request may start while earlier such requests still wait."""

    def admit(self, start: memoryview, size_bytes: int) -> None:
        """Raise DecodeError unless a request of this size is wanted; `start` is its beginning."""

    def handle(self, frame: memoryview, session: Session) -> Buffers | Pending:
        """Start to answer one request; never blocks.

        Raises:
            DecodeError: the request cannot be read, or is not served.
            CloseConnectionError: there is no response for what went wrong.
        """
