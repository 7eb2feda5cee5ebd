"""jbodlab records consume: records as lines of text, or as JSON objects, one on each line.

Without a group it reads the partitions by itself: no coordinator is needed, and no group is left.
In a group an offset is committed once its record is printed.
"""

from __future__ import annotations

import base64
import json
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from admin_tool.arguments import counted
from admin_tool.client import connected, partitions_of, reason
from admin_tool.errors import AdminError
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError

POLL_S = 0.2
"""How long Ctrl-C may wait."""
MESSAGES_MAX = 500
_PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_MAX_POLL_EXCEEDED")
"""Errors from which the library recovers by itself."""


def run(options: Namespace, output: Output) -> int:
    """Print records; returns the exit code."""
    if options.group is not None and (options.partition or isinstance(options.start, int)):
        raise UsageError("--group excludes --partition and --from with an offset")
    defaults = {
        "group.id": options.group or "jbodlab",
        "enable.auto.commit": options.group is not None,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "latest" if options.start == "end" else "earliest",
    }
    count = 0

    def lost() -> None:
        output.note("no broker can be reached, waiting for one")

    with connected("Consumer", options, defaults, lost) as (consumer, topics):
        _begin(consumer, options, partitions_of(topics, options.topic, options.partition))
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


def _begin(consumer: Any, options: Namespace, partitions: list[int]) -> None:
    """Subscribe, or take the partitions."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    if options.group is not None:
        consumer.subscribe([options.topic])
        return
    named = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}
    offset = named.get(options.start, options.start)
    consumer.assign([TopicPartition(options.topic, one, offset) for one in partitions])


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
