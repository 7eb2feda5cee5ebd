"""A client in a process of its own: the unmodified client library, told by a file what to do.

    python -m lab.rehearsal.client CONFIG.json

    role write   send by a schedule until SIGTERM, then wait for the answers
    role read    consume until SIGTERM
    role drain   read all partitions to their ends, once

A schedule does not wait: the message that was due while the library's queue was full is sent late
and measured from the time at which it was due, so that a client that is held up hides nothing
(coordinated omission). What became of each message goes to `output` at once; `status` has the rest.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from lab.rehearsal.facts import NOT_ANSWERED, Sent
from lab.rehearsal.series import RECEIVED, SENT

FLUSH_PERIOD_NS = 20_000_000
POLL_MAX_S = 0.02
ANSWER_DEADLINE_S = 60.0
DRAIN_PATIENCE_S = 20.0
SUBSCRIPTION_POLL_S = 0.1


class Stop:
    """Whether SIGTERM came."""

    def __init__(self) -> None:
        self.is_set = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._set)

    def _set(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True


class Output:
    """The series, on its way to the disk every few milliseconds."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._flushed_ns = 0

    def write(self, data: bytes) -> None:
        """Take one record."""
        self._file.write(data)

    def flush_now_and_then(self) -> None:
        """Hand over what was taken, if that is due."""
        now = time.monotonic_ns()
        if now - self._flushed_ns > FLUSH_PERIOD_NS:
            self._file.flush()
            self._flushed_ns = now


def main() -> int:
    """Run one client; returns the exit code."""
    config = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    status = Path(config["status"])
    roles: dict[str, Callable[[dict[str, Any], Output, Stop], dict[str, Any]]] = {
        "write": write,
        "read": read,
        "drain": drain,
    }
    with Path(config["output"]).open("wb") as file:
        try:
            found = roles[config["role"]](config, Output(file), Stop())
        except KafkaException as error:
            found = {"failure": str(error.args[0])}
    status.with_suffix(".new").write_text(json.dumps(found), "utf-8")
    status.with_suffix(".new").rename(status)
    return 1 if found.get("failure") else 0


def write(config: dict[str, Any], output: Output, stop: Stop) -> dict[str, Any]:
    """Send by the schedule: message n of key n % keys, each key to one partition.

    At a rate of 0 nothing is ever due.
    """
    producer = confluent_kafka.Producer(config["client"])
    keys, partitions, topic = config["keys"], config["partitions"], config["topic"]
    rate = config["rate"]
    begin_ns, number = time.monotonic_ns(), 0

    def answered(one: Sent, error: KafkaError | None, message: Any = None) -> None:
        code = 0 if error is None else error.code()
        # An acknowledgement has none for acks=0, nor for a batch that the broker got before and no
        # longer remembers.
        known = message.offset() if error is None else None
        offset = -1 if known is None else known
        done_ns = time.monotonic_ns()
        output.write(SENT.pack(*one._replace(done_ns=done_ns, offset=offset, error=code)))

    while not stop.is_set:
        due_ns = begin_ns + int(number * 1e9 / rate) if rate else sys.maxsize
        left_ns = due_ns - time.monotonic_ns()
        if left_ns > 0:
            producer.poll(min(left_ns / 1e9, POLL_MAX_S))
            output.flush_now_and_then()
            continue
        key, sequence = config["first_key"] + number % keys, number // keys
        partition = number % keys % partitions
        value = f"{sequence} ".ljust(config["size"], ".").encode()
        one = Sent(due_ns, time.monotonic_ns(), NOT_ANSWERED, sequence, -1, partition, key, 0)
        try:
            producer.produce(
                topic,
                value,
                key=str(key),
                partition=partition,
                on_delivery=partial(answered, one),
            )
        except BufferError:
            producer.poll(POLL_MAX_S)
            continue
        except KafkaException as error:
            # The library refuses it, since the topic was deleted. The others are still due.
            if error.args[0].fatal():
                raise
            answered(one, error.args[0])
        else:
            output.write(SENT.pack(*one))
        number += 1
        producer.poll(0)
        output.flush_now_and_then()
    end_ns = time.monotonic_ns()
    deadline = time.monotonic() + ANSWER_DEADLINE_S
    while producer.flush(POLL_MAX_S * 10) and time.monotonic() < deadline:
        output.flush_now_and_then()
    return {"begin_ns": begin_ns, "end_ns": end_ns, "sent": number}


def read(config: dict[str, Any], output: Output, stop: Stop) -> dict[str, Any]:
    """Consume until told to stop: by partitions, or as member of a group."""
    consumer = confluent_kafka.Consumer(config["client"])
    assigned_ns: list[int] = []
    if config["group"]:
        consumer.subscribe(
            [config["topic"]],
            on_assign=lambda _client, _partitions: assigned_ns.append(time.monotonic_ns()),
        )
    else:
        consumer.assign(_beginnings(config["topic"], config["partitions"]))
    errors: list[str] = []
    while not stop.is_set:
        for message in consumer.consume(500, timeout=SUBSCRIPTION_POLL_S):
            error = message.error()
            if error is not None:
                errors.append(error.name())
                if error.fatal() or error.code() == KafkaError.UNSUPPORTED_VERSION:
                    return {"failure": error.str(), "errors": errors}
            else:
                _take(message, output)
        output.flush_now_and_then()
    consumer.close()
    return {"errors": errors, "assigned_ns": assigned_ns}


def drain(config: dict[str, Any], output: Output, stop: Stop) -> dict[str, Any]:
    """Read every partition from its beginning to its end, or until nothing comes any more."""
    consumer = confluent_kafka.Consumer({**config["client"], "enable.partition.eof": True})
    consumer.assign(_beginnings(config["topic"], config["partitions"]))
    left = set(range(config["partitions"]))
    last = time.monotonic()
    while left and not stop.is_set:
        for message in consumer.consume(1000, timeout=SUBSCRIPTION_POLL_S):
            error = message.error()
            if error is None:
                _take(message, output)
                last = time.monotonic()
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
                last = time.monotonic()
        if time.monotonic() - last > DRAIN_PATIENCE_S:
            break
    consumer.close()
    return {"unread": sorted(left)}


def _beginnings(topic: str, partitions: int) -> list[confluent_kafka.TopicPartition]:
    beginning = confluent_kafka.OFFSET_BEGINNING
    return [confluent_kafka.TopicPartition(topic, each, beginning) for each in range(partitions)]


def _take(message: Any, output: Output) -> None:
    # Others may write to the topic as well; what is not of our producers is left out.
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        sequence = int(message.value().split(b" ", 1)[0])
        key = int(message.key())
        output.write(
            RECEIVED.pack(time.monotonic_ns(), sequence, message.offset(), message.partition(), key)
        )


if __name__ == "__main__":
    sys.exit(main())
