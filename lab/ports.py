"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import socket

from lab.errors import LabError

FIRST_PORT, LAST_PORT = 19_000, 32_000
"""Below the range from which the system gives ports to outgoing connections, so that none of those
takes a port between its choice here and the start of the server."""


def free_ports(count: int, *, start: int) -> list[int]:
    """Return different ports that nobody listens on.

    Args:
        count: How many.
        start: Where the search begins; any number, the range wraps around.

    Raises:
        LabError: there are not that many.
    """
    found: list[int] = []
    size = LAST_PORT - FIRST_PORT
    for step in range(size):
        port = FIRST_PORT + (start + step) % size
        if _is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise LabError(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT}")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # As servers do: a port whose last connections are still timing out counts as free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
