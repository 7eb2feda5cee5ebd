"""One client that sends one request at a time: how long each answer takes, and what it costs."""

from __future__ import annotations

import datetime
import socket
import struct
import time
from dataclasses import dataclass

from bench.measure import MAKE, cpu_seconds, fresh, median, percentile
from jbodlab.kafka_wire.api_table import ApiKey, item_class, request_class, request_encoder
from jbodlab.kafka_wire.headers import request_header
from jbodlab.record_batch.record_batch import build_batch

VERSION = 9
"""Of Produce: the first that is flexible, which both sides serve."""
VALUE_BYTES = 100
WARM_REQUESTS, COUNT = 3_000, 3_000
"""A compiler of the other side needs as many before it is warm."""
SIZE = struct.Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Times of one kind of request; `pause_ms` is between an answer and the next."""

    factor: int
    acks: int
    pause_ms: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


def alone(make: MAKE, factor: int, acks: int, pauses_ms: tuple[float, ...]) -> list[Alone]:
    """Produce one message a request to one partition, on one connection."""
    found = []
    with fresh(make) as cluster:
        cluster.start()
        cluster.create_topic("alone", 1, factor)
        # The log is made in the seconds after that.
        time.sleep(3)
        host, _, port = cluster.leader("alone", 0).address.rpartition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            frame = _frame(acks)
            _ask(connection, frame, WARM_REQUESTS, 0)
            for pause_ms in pauses_ms:
                cpu = cpu_seconds(cluster)
                times = _ask(connection, frame, COUNT, pause_ms / 1000)
                cpu_us = (cpu_seconds(cluster) - cpu) / COUNT * 1e6
                found.append(
                    Alone(
                        factor=factor,
                        acks=acks,
                        pause_ms=pause_ms,
                        p50_ms=median(times) * 1000,
                        p99_ms=percentile(times, 0.99) * 1000,
                        cpu_us=cpu_us,
                    )
                )
    return found


def _frame(acks: int) -> bytes:
    request = request_class(ApiKey.PRODUCE, VERSION)
    topic = item_class(request, "topic_data")
    partition = item_class(topic, "partition_data")
    records = build_batch([(None, bytes(VALUE_BYTES))], timestamp_ms=round(time.time() * 1000))
    entity = request(
        transactional_id=None,
        acks=acks,
        timeout=datetime.timedelta(seconds=30),
        topic_data=(topic(name="alone", partition_data=(partition(index=0, records=records),)),),
    )
    pieces: list[bytes] = [request_header(ApiKey.PRODUCE, VERSION, 1, "alone")]
    request_encoder(ApiKey.PRODUCE, VERSION)(entity, pieces.append)
    message = b"".join(pieces)
    return SIZE.pack(len(message)) + message


def _ask(connection: socket.socket, frame: bytes, count: int, pause_s: float) -> list[float]:
    """Return how many seconds each answer took."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        connection.sendall(frame)
        answer = connection.recv(4096)
        times.append(time.perf_counter() - begin)
        # The error code of the only partition: behind ids, counts and the name.
        assert answer[-35:-33] == b"\0\0", answer
        if pause_s:
            time.sleep(pause_s)
    return times
