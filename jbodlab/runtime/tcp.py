"""Options of the sockets of Kafka's protocol."""

from __future__ import annotations

import asyncio
import socket


def set_up(transport: asyncio.BaseTransport, *, keep_alive: bool = False) -> None:
    """Send small frames at once; `keep_alive` lets the system detect a vanished peer some day."""
    raw = transport.get_extra_info("socket")
    if raw is None:
        return
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if keep_alive:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
