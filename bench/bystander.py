"""A client that does nothing wrong, and how long it waits while others do.

It runs in a process of its own, so that the work of an attacker beside it does not count. Waiting
is measured twice: by the clock, and by the processor time that the broker's event loop took
meanwhile, which other processes on the machine lengthen less.
"""

from __future__ import annotations

import multiprocessing
import socket
import struct
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.framing import SIZE
from jbodlab.kafka_wire.headers import request_header
from jbodlab.record_batch.record_batch import build_batch

PAUSE_S = 0.002
"""Between two requests."""
ANSWER_S = 60.0
TEXT = struct.Struct(">h")
METADATA_VERSION, PRODUCE_VERSION = 1, 7
LEADER_ONLY = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Of all requests in one stretch of time, in ms.

    Attributes:
        count: How many requests there were.
        longest_ms: From sending one to its answer.
        busy_ms: Most processor time of the broker's event loop in the course of one of them.
    """

    count: int
    longest_ms: float
    busy_ms: float


class Bystander:
    """Asks one broker for metadata, and writes to a topic that it leads, all the time.

    Args:
        port: Of the broker.
        pid: Its process.
        topic: Partition 0 of it is written to.
    """

    def __init__(self, port: int, pid: int, topic: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_ask, args=(there, port, pid, topic), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        self._pipe.recv()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.join()

    def waits(self) -> Waits:
        """Return how long requests have waited since this was asked last."""
        self._pipe.send(None)
        found = self._pipe.recv()
        assert isinstance(found, Waits)
        return found


def text(value: str) -> bytes:
    """Encode a string of a message whose version is not flexible."""
    encoded = value.encode()
    return TEXT.pack(len(encoded)) + encoded


def framed(key: ApiKey, version: int, body: bytes) -> bytes:
    """Return a whole request."""
    message = request_header(key, version, 1, "bench") + body
    return SIZE.pack(len(message)) + message


def metadata(version: int, *topics: str) -> bytes:
    """Return a request for topics; the version is below 4."""
    return framed(ApiKey.METADATA, version, SIZE.pack(len(topics)) + b"".join(map(text, topics)))


def produce(topic: str, partition: int, acks: int, records: bytes, timeout_ms: int) -> bytes:
    """Return a request with one batch of records."""
    body = TEXT.pack(-1) + struct.pack(">hii", acks, timeout_ms, 1) + text(topic)
    body += struct.pack(">iii", 1, partition, len(records)) + records
    return framed(ApiKey.PRODUCE, PRODUCE_VERSION, body)


def connected(port: int) -> socket.socket:
    """Return a connection to a broker on this machine."""
    found = socket.create_connection(("127.0.0.1", port), ANSWER_S)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def receive(connection: socket.socket) -> bytes:
    """Return a whole response, its size field excluded."""
    (size,) = SIZE.unpack(_exactly(connection, SIZE.size))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        some = connection.recv(count - len(found))
        if not some:
            raise ConnectionError("the broker has closed the connection")
        found += some
    return bytes(found)


def _ask(pipe: Connection, port: int, pid: int, topic: str) -> None:
    """Be the other process."""
    batch = build_batch([(None, b"x" * 100)], timestamp_ms=int(time.time() * 1e3))
    requests = (
        metadata(METADATA_VERSION, topic),
        produce(topic, 0, LEADER_ONLY, batch, 30_000),
    )
    loop = Path(f"/proc/{pid}/task/{pid}/schedstat")
    connection = connected(port)
    for request in requests:
        connection.sendall(request)
        receive(connection)
    pipe.send(None)
    while True:
        count, longest_s, busy_s = 0, 0.0, 0.0
        while not pipe.poll():
            busy, begun = _run_s(loop), time.monotonic()
            connection.sendall(requests[count % len(requests)])
            receive(connection)
            longest_s = max(longest_s, time.monotonic() - begun)
            busy_s = max(busy_s, _run_s(loop) - busy)
            count += 1
            time.sleep(PAUSE_S)
        pipe.recv()
        pipe.send(Waits(count=count, longest_ms=longest_s * 1e3, busy_ms=busy_s * 1e3))


def _run_s(thread: Path) -> float:
    return int(thread.read_text().split()[0]) / 1e9
