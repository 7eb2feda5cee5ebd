"""`jbod-broker --health`: does this broker serve clients?

It does when it answers Metadata on its own listener and counts itself among the live brokers, that
is, when it is registered, unfenced and has an address for clients. The question is three dozen
bytes of a protocol version that every broker speaks, so the check needs no codec and starts fast.
"""

from __future__ import annotations

import socket
import struct

from jbodlab.config.node_config import NodeConfig

TIMEOUT_S = 3.0
METADATA_KEY, METADATA_VERSION = 3, 1
MAX_ANSWER_BYTES = 16 << 20

_CLIENT_ID = b"health"
_NO_TOPICS = struct.pack(">i", 0)


def serves_clients(config: NodeConfig) -> tuple[bool, str]:
    """Ask the broker of this configuration.

    Returns:
        Whether it serves clients, and one line that says so or says why not.
    """
    names = {name.upper() for name in config.controller_listener_names}
    listener = next(endpoint for endpoint in config.listeners if endpoint.name not in names)
    host = "127.0.0.1" if listener.host in ("", "0.0.0.0") else listener.host
    where = f"broker {config.node_id} at {host}:{listener.port}"
    try:
        answer = _ask(host, listener.port)
        if config.node_id in _live_brokers(answer):
            return True, f"{where} serves clients"
    except (OSError, struct.error, ValueError) as error:
        return False, f"{where} does not respond: {error}"
    return False, f"{where} responds, but is not listed as a live broker"


def _ask(host: str, port: int) -> bytes:
    header = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID
    request = header + _NO_TOPICS
    with socket.create_connection((host, port), TIMEOUT_S) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        if not 0 < size <= MAX_ANSWER_BYTES:
            raise ValueError(f"expected a response of at most {MAX_ANSWER_BYTES} bytes, got {size}")
        return _receive(connection, size)


def _receive(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return bytes(data)


def _live_brokers(answer: bytes) -> set[int]:
    """Read the broker ids of a Metadata response, version 1: id, host, port and rack of each."""
    (count,) = struct.unpack_from(">i", answer, 4)
    position, ids = 8, set()
    for _ in range(count):
        node_id, host_length = struct.unpack_from(">ih", answer, position)
        position += 6 + host_length + 4
        (rack_length,) = struct.unpack_from(">h", answer, position)
        position += 2 + max(rack_length, 0)
        ids.add(node_id)
    return ids
