"""Carries jbod-console-producer out."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from admin_tool.console.client import errors_in_one_line, from_file, properties, settings
from admin_tool.console.line_reader import LineReader
from admin_tool.errors import AdminError
from admin_tool.options import Parsed

POLL_S = 0.2
_SETTINGS = {
    "request-required-acks": "acks",
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "metadata-expiry-ms": "topic.metadata.refresh.interval.ms",
    "socket-buffer-size": "socket.send.buffer.bytes",
    "timeout": "linger.ms",
    "message-send-max-retries": "retries",
    "request-timeout-ms": "request.timeout.ms",
    "retry-backoff-ms": "retry.backoff.ms",
}
MAX_BLOCK_MS = 60_000
"""Kafka's `max.block.ms`; librdkafka leaves it to its user how long a full queue is waited for."""


class Outcome:
    """What became of the records."""

    def __init__(self) -> None:
        self.written = 0
        self.failures: list[str] = []

    def delivered(self, error: Any, message: Any) -> None:
        """Note one record."""
        if error is None:
            self.written += 1
        else:
            self.failures.append(error.str())

    def check(self) -> None:
        """Insist that everything is written.

        Raises:
            AdminError: something is not.
        """
        if self.failures:
            total = self.written + len(self.failures)
            raise AdminError(
                f"{len(self.failures)} of {total} records were not written: {self.failures[0]}"
            )


def run(options: Parsed) -> int:
    """Write the lines of the standard input; returns the exit code."""
    given = (*options.texts("property"), *options.texts("reader-property"))
    reader = LineReader({**from_file(options, "reader-config"), **properties(given)})
    defaults: dict[str, object] = {"acks": "-1"}
    for name, key in _SETTINGS.items():
        if options.has(name):
            defaults[key] = options.required(name)
    if options.has("compression-codec"):
        defaults["compression.type"] = options.text("compression-codec") or "gzip"
    if (memory := options.number("max-memory-bytes")) is not None:
        defaults["queue.buffering.max.kbytes"] = max(memory // 1024, 1)
    block_ms = options.number("max-block-ms")
    block_s = (MAX_BLOCK_MS if block_ms is None else block_ms) / 1000
    config = settings(options, defaults)
    topic = options.required("topic")
    outcome = Outcome()
    with errors_in_one_line():
        from confluent_kafka import Producer

        producer = Producer(config)
        try:
            for number, line in enumerate(_lines(), 1):
                record = reader.read(line, number)
                _send(producer, topic, record, outcome, block_s)
                if options.has("sync"):
                    producer.flush()
                    outcome.check()
        finally:
            # Ends with the deadline of each record, delivery.timeout.ms.
            while producer.flush(POLL_S):
                pass
    outcome.check()
    return 0


def _send(producer: Any, topic: str, record: Any, outcome: Outcome, block_s: float) -> None:
    end_s = time.monotonic() + block_s
    while True:
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                on_delivery=outcome.delivered,
            )
        except BufferError as error:
            if time.monotonic() >= end_s:
                raise AdminError(f"no room for a line within {block_s:g} s: {error}") from error
            producer.poll(POLL_S)
        else:
            producer.poll(0)
            return


def _lines() -> Iterator[bytes]:
    """Yield the lines of the standard input; a person is asked for each."""
    is_asked = sys.stdin.isatty()
    while True:
        if is_asked:
            print(">", end="", flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")
