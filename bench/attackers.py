"""Careless clients; each of them in a process of its own, with nothing but the port."""

from __future__ import annotations

import random
import resource
import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Event

from bench.bystander import METADATA_VERSION, connected, framed, produce, receive, text
from broker.api.table import APIS
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.framing import SIZE
from jbodlab.kafka_wire.headers import request_header
from jbodlab.record_batch.record_batch import build_batch

CONNECTIONS = 10_000
ODD_FRAMES = 7_000
ODD_AT_ONCE = 500
PRODUCERS, BATCH_BYTES, BATCHES, SMALL_BATCH_BYTES = 200, 900_000, 4, 16_000
ASKERS, QUESTIONS = 50, 4
HOLD_S = 600.0
SEED = 13
ALL = -1
MIB = 1 << 20

Requests = Callable[[], bytes]


def send_one(request: Requests, port: int) -> None:
    """Send one request and wait for its answer, or for the end of the connection."""
    _sent(port, request())


def hold_silent(opened: Event, port: int) -> None:
    """Open connections, say so, and keep them without a word until this process is killed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = [connected(port) for _ in range(CONNECTIONS)]
    opened.set()
    time.sleep(HOLD_S)
    held.clear()


def send_odd(port: int) -> None:
    """Send requests that nobody can read, each over a connection of its own, many at once."""
    drawn = random.Random(SEED)
    frames = [_odd(drawn) for _ in range(ODD_FRAMES)]
    for start in range(0, len(frames), ODD_AT_ONCE):
        some = [connected(port) for _ in frames[start : start + ODD_AT_ONCE]]
        for connection, frame in zip(some, frames[start:], strict=False):
            connection.sendall(frame)
        for connection in some:
            connection.shutdown(socket.SHUT_WR)
            _until_closed(connection)


def produce_to_all(topic: str, batch_bytes: int, port: int) -> None:
    """Have many producers send as much as they may, and wait until all replicas have it."""
    count = BATCHES * BATCH_BYTES // batch_bytes
    batch = build_batch([(None, b"x" * batch_bytes)], timestamp_ms=int(time.time() * 1e3))
    request = produce(topic, 0, ALL, batch, 60_000)
    _exchange(port, [request] * count, PRODUCERS)


def ask_at_once(request: Requests, port: int) -> None:
    """Have many clients ask the same at the same time, a few times each."""
    _exchange(port, [request()] * QUESTIONS, ASKERS)


def many_names(count: int, letters: int) -> bytes:
    """Return a Metadata request for topics that nobody has."""
    name = text("n" * letters)
    return framed(ApiKey.METADATA, METADATA_VERSION, SIZE.pack(count) + name * count)


def all_topics() -> bytes:
    """Return a Metadata request for everything there is."""
    return framed(ApiKey.METADATA, METADATA_VERSION, SIZE.pack(-1))


def many_fetched(topic: str, partitions: int, count: int) -> bytes:
    """Return a Fetch that names so many partitions, those of the topic in turn."""
    entry = struct.Struct(">iqi")
    named = b"".join(entry.pack(number % partitions, 0, MIB) for number in range(count))
    body = struct.pack(">iiiib", -1, 100, 1, MIB, 0) + SIZE.pack(1) + text(topic)
    return framed(ApiKey.FETCH, 4, body + SIZE.pack(count) + named)


def many_offsets(topic: str, partitions: int, count: int) -> bytes:
    """Return a ListOffsets that names so many partitions, those of the topic in turn."""
    entry = struct.Struct(">iq")
    named = b"".join(entry.pack(number % partitions, -1) for number in range(count))
    body = struct.pack(">i", -1) + SIZE.pack(1) + text(topic) + SIZE.pack(count) + named
    return framed(ApiKey.LIST_OFFSETS, 1, body)


def many_created(count: int) -> bytes:
    """Return a CreateTopics, to be validated only, with so many topics."""
    topics = b"".join(
        text(f"new-{number}") + struct.pack(">ihii", 1, 1, 0, 0) for number in range(count)
    )
    body = SIZE.pack(count) + topics + struct.pack(">i?", 30_000, True)
    return framed(ApiKey.CREATE_TOPICS, 2, body)


def many_deleted(count: int) -> bytes:
    """Return a DeleteTopics for topics that nobody has."""
    names = b"".join(text(f"none-{number}") for number in range(count))
    return framed(ApiKey.DELETE_TOPICS, 1, SIZE.pack(count) + names + struct.pack(">i", 30_000))


def many_moved(path: str, count: int) -> bytes:
    """Return an AlterReplicaLogDirs for partitions of a topic that nobody has."""
    indexes = struct.pack(f">{count}i", *range(count))
    body = SIZE.pack(1) + text(path) + SIZE.pack(1) + text("none") + SIZE.pack(count) + indexes
    return framed(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, body)


def many_described(topic: str, count: int) -> bytes:
    """Return a DescribeConfigs for topics, the same one again and again."""
    resource_ = struct.pack(">b", 2) + text(topic) + SIZE.pack(-1)
    body = SIZE.pack(count) + resource_ * count + b"\1"
    return framed(ApiKey.DESCRIBE_CONFIGS, 1, body)


def _odd(drawn: random.Random) -> bytes:
    """Return a frame as no client sends it."""
    api = drawn.choice(list(APIS.values()))
    version = drawn.randint(api.accepted_versions.start, api.accepted_versions.stop)
    body = drawn.randbytes(drawn.randint(0, 200))
    match drawn.randrange(4):
        case 0:  # an array of so many items that nothing could hold them
            body = SIZE.pack(0x7FFFFFFF) + body
        case 1:  # no such API
            return SIZE.pack(len(body) + 8) + struct.pack(">hhi", 999, 0, 1) + body
        case 2:  # a size that is none
            return struct.pack(">i", drawn.choice((-1, 0, 1, 0x7FFFFFFF))) + body
    message = request_header(api.key, version, 1, "odd") + body
    return SIZE.pack(len(message)) + message


def _sent(port: int, request: bytes) -> None:
    connection = connected(port)
    try:
        connection.sendall(request)
        receive(connection)
    except ConnectionError:
        return  # it was refused
    finally:
        connection.close()


def _until_closed(connection: socket.socket) -> None:
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    connection.close()


def _exchange(port: int, requests: Sequence[bytes], clients: int) -> None:
    """Have every client send all requests, as fast as they are taken, and receive all answers."""
    with selectors.DefaultSelector() as selector:
        for _ in range(clients):
            connection = connected(port)
            connection.setblocking(False)
            talk = _Talk(connection, memoryview(b"".join(requests)), len(requests))
            selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, talk)
        while selector.get_map():
            for key, events in selector.select():
                talk = key.data
                if events & selectors.EVENT_WRITE and not talk.send():
                    selector.modify(talk.connection, selectors.EVENT_READ, talk)
                if events & selectors.EVENT_READ and not talk.receive():
                    selector.unregister(talk.connection)
                    talk.connection.close()


class _Talk:
    """One client's requests and answers."""

    def __init__(self, connection: socket.socket, unsent: memoryview, answers: int) -> None:
        self.connection = connection
        self._unsent = unsent
        self._answers = answers
        self._received = bytearray()

    def send(self) -> bool:
        """Send what is taken; returns whether something is left."""
        self._unsent = self._unsent[self.connection.send(self._unsent[:MIB]) :]
        return bool(self._unsent)

    def receive(self) -> bool:
        """Receive what is there; returns whether an answer is still missing."""
        some = self.connection.recv(MIB)
        if not some:
            raise ConnectionError("the broker has closed the connection")
        self._received += some
        while len(self._received) >= SIZE.size:
            end = SIZE.size + SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            del self._received[:end]
            self._answers -= 1
        return self._answers > 0
