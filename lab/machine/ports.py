"""TCP ports on the loopback interface that nobody else is given.

A port is held by a socket that is bound and never listens. The system then gives it to nobody who
asks for any port, neither to listen on nor to connect from, while a server that names it binds and
listens beside that socket, because both allow the address to be used again; it may do so again
after every restart. Nodes inherit the sockets, so that the ports stay held while one of them runs.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Sequence
from typing import Self

from lab.errors import LabError

HOST = "127.0.0.1"


class HeldPorts:
    """Some ports, until `close`."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = tuple(sockets)
        self.numbers: tuple[int, ...] = tuple(one.getsockname()[1] for one in sockets)

    @classmethod
    def hold(cls, count: int) -> HeldPorts:
        """Hold so many ports, whichever are free.

        Raises:
            LabError: there are not that many.
        """
        return cls._of([0] * count, f"no {count} free ports on {HOST}: {{}}")

    @classmethod
    def hold_from(cls, first: int, count: int) -> HeldPorts:
        """Hold so many ports in a row.

        Raises:
            LabError: one of them is taken, or may not be used.
        """
        wanted = range(first, first + count)
        return cls._of(wanted, f"port {{}} on {HOST} cannot be used: {{}}")

    @classmethod
    def _of(cls, wanted: Iterable[int], failure: str) -> HeldPorts:
        with contextlib.ExitStack() as stack:
            sockets = []
            for port in wanted:
                try:
                    if port:
                        # Somebody who listens there allows others to bind, but not to listen.
                        with _bound(port) as tried:
                            tried.listen(1)
                    sockets.append(stack.enter_context(_bound(port)))
                except OSError as error:
                    told = (port, error.strerror) if port else (error,)
                    raise LabError(failure.format(*told)) from error
            stack.pop_all()
        return cls(sockets)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that a node has to inherit to hold the ports too; empty after `close`."""
        return tuple(one.fileno() for one in self._sockets if one.fileno() >= 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go; nodes that inherited the ports go on holding them."""
        for one in self._sockets:
            one.close()


def _bound(port: int) -> socket.socket:
    one = socket.socket()
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((HOST, port))
    except OSError:
        one.close()
        raise
    return one
