"""jbodlab records: the lines of stdin into a topic, and the records of a topic to stdout.

Records are read as lines of text, or as JSON objects, one on each line. Without a group they are
read without a coordinator, and no group is left; in a group an offset is committed once its record
is printed.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from typing import Any

from admin_tool.client import connected, reason
from admin_tool.offsets import partitions_of
from jbodlab.cli.output import Output, counted
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin.errors import AdminError

POLL_S = 0.2
"""How long Ctrl-C may wait."""
MESSAGES_MAX = 500
_PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_MAX_POLL_EXCEEDED")
"""Errors from which the library recovers by itself."""
QUEUED_MAX = 1_000
"""Records that wait for their acknowledgement."""
DELIVERY_TIMEOUT_MS = 30_000
"""How long a record is tried; a property may say otherwise."""
ANY_PARTITION = -1
"""Leaves the choice to the library: by the key, else as it likes."""


def separator(text: str) -> str:
    r"""Read a separator; a shell hands a tab on as the two characters \t."""
    if not text:
        raise ArgumentTypeError("expected at least one character")
    return text.replace("\\t", "\t")


def start(text: str) -> str | int:
    """Read the value of `--from`."""
    if text in ("beginning", "end"):
        return text
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentTypeError(f"expected beginning, end or an offset, got {text!r}")
    return int(text)


def produce(options: Namespace, output: Output) -> int:
    """Write the lines of stdin; returns the exit code."""
    defaults = {
        "acks": options.acks,
        # Without it a record that is sent again may be there twice, or behind a later one.
        "enable.idempotence": options.acks == "all",
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
    }
    sent = 0
    failures: list[str] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(reason(error))

    with connected("Producer", options, defaults) as (producer, topics):
        partition = options.partition
        partitions_of(topics, options.topic, [] if partition == ANY_PARTITION else [partition])
        is_person = sys.stdin.isatty()
        if is_person:
            output.note("type records, one on each line; end with Ctrl-D")
        try:
            for line in sys.stdin.buffer:
                key, value = split(line, options.key_separator, sent + 1)
                producer.produce(options.topic, value, key, partition, on_delivery=delivered)
                sent += 1
                _wait(producer, 0 if is_person else QUEUED_MAX)
                if is_person and failures:
                    break
        finally:
            _wait(producer, 0)
            written = counted(sent - len(failures), "record")
            output.note(f"{written} produced to {options.topic}")
    if failures:
        were = f"{counted(sent, 'record')} {'was' if len(failures) == 1 else 'were'}"
        raise AdminError(f"{len(failures)} of {were} not acknowledged: {failures[0]}")
    return 0


def split(line: bytes, separator: str | None, number: int) -> tuple[bytes | None, bytes]:
    """Return key and value of the line of that number; without a separator lines have no keys.

    Raises:
        AdminError: the separator is missing.
    """
    text = line.removesuffix(b"\n").removesuffix(b"\r")
    if separator is None:
        return None, text
    key, found, value = text.partition(separator.encode())
    if not found:
        shown = text.decode(errors="replace")
        raise AdminError(f"line {number}: expected KEY{separator}VALUE, got {shown!r}")
    return key, value


def _wait(producer: Any, most: int) -> None:
    """Wait until so many records are left without an outcome; in steps, so that Ctrl-C ends it."""
    producer.poll(0)
    while len(producer) > most:
        producer.poll(POLL_S)


def consume(options: Namespace, output: Output) -> int:
    """Print records; returns the exit code."""
    if options.group is not None and (options.partition or isinstance(options.start, int)):
        raise UsageError("--group excludes --partition and --from with an offset")
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    defaults = {
        "group.id": options.group or "jbodlab",
        "enable.auto.commit": options.group is not None,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "latest" if options.start == "end" else "earliest",
    }
    named = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}
    offset = named.get(options.start, options.start)
    count = 0

    def lost() -> None:
        output.note("no broker can be reached, waiting for one")

    with connected("Consumer", options, defaults, lost) as (consumer, topics):
        partitions = partitions_of(topics, options.topic, options.partition)
        if options.group is None:
            consumer.assign([TopicPartition(options.topic, one, offset) for one in partitions])
        else:
            consumer.subscribe([options.topic])
        try:
            for message in _messages(consumer, options.max, options.timeout):
                line = as_json(message) if output.is_json else _text(message, options)
                output.out.buffer.write(line + b"\n")
                output.out.buffer.flush()
                count += 1
                if options.group is not None:
                    consumer.store_offsets(message)
        finally:
            output.note(counted(count, "record"))
    return 0


def as_json(message: Any) -> bytes:
    """Return a record as a JSON object in one line; `docs/commands.md` names its fields."""
    kind, timestamp = message.timestamp()
    found = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if kind else None,
        **_encoded("key", message.key()),
        **_encoded("value", message.value()),
        "headers": [
            {"name": name, **_encoded("value", data)} for name, data in message.headers() or ()
        ],
    }
    return json.dumps(found, ensure_ascii=False).encode()


def _encoded(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return a field with bytes as a text, and one that says whether that is base64."""
    if data is None:
        return {name: None, f"{name}_encoding": None}
    try:
        return {name: data.decode(), f"{name}_encoding": "text"}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode(), f"{name}_encoding": "base64"}


def _text(message: Any, options: Namespace) -> bytes:
    key, value = (b"null" if one is None else one for one in (message.key(), message.value()))
    return value if options.key_separator is None else key + options.key_separator.encode() + value


def _messages(consumer: Any, most: int | None, timeout_s: float | None) -> Iterator[Any]:
    """Yield records, to the last one that is wanted."""
    count = 0
    last_s = time.monotonic()
    while most is None or count < most:
        asked = MESSAGES_MAX if most is None else min(most - count, MESSAGES_MAX)
        for message in consumer.consume(asked, POLL_S):
            error = message.error()
            if error is None:
                yield message
                last_s = time.monotonic()
                count += 1
            elif error.fatal() or not (error.retriable() or error.name() in _PASSING):
                raise AdminError(reason(error))
        if timeout_s is not None and time.monotonic() - last_s >= timeout_s:
            return
