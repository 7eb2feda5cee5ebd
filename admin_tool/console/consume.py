"""Carries jbod-console-consumer out.

Without a group it reads all partitions by itself: no coordinator is needed, and no group is left
behind.
"""

from __future__ import annotations

import re
import sys
import time
from typing import Any

from admin_tool.console.client import (
    METADATA_TIMEOUT_S,
    errors_in_one_line,
    from_file,
    properties,
    settings,
)
from admin_tool.console.formatter import NO_TIMESTAMP, Formatter, ShownRecord
from admin_tool.console_consumer import NO_FORMATTER
from admin_tool.errors import AdminError
from admin_tool.options import Parsed

POLL_S = 0.2
"""How long Ctrl-C may wait."""
MESSAGES_MAX = 500
_PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_MAX_POLL_EXCEEDED")


def run(options: Parsed) -> int:
    """Print records; returns the exit code."""
    given = (*options.texts("property"), *options.texts("formatter-property"))
    formats = {**from_file(options, "formatter-config"), **properties(given)}
    for name in ("key-deserializer", "value-deserializer"):
        if options.has(name):
            formats[name.replace("-", ".")] = options.required(name)
    formatter = Formatter(formats)
    is_shown = not (options.text("formatter") or "").endswith(NO_FORMATTER)
    group = options.text("group")
    reset = "earliest" if options.has("from-beginning") else "latest"
    config = settings(
        options,
        {
            "group.id": group or "jbod-console-consumer",
            "enable.auto.commit": group is not None,
            "auto.offset.reset": reset,
            "isolation.level": options.text("isolation-level") or "read_uncommitted",
            "enable.partition.eof": False,
        },
    )
    with errors_in_one_line():
        from confluent_kafka import Consumer

        consumer = Consumer(config)
        count = 0
        try:
            _begin(consumer, options)
            for line in _lines(consumer, formatter, options):
                if is_shown:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
                count += 1
        finally:
            consumer.close()
            print(f"Processed a total of {count} messages", file=sys.stderr, flush=True)
    return 0


def _begin(consumer: Any, options: Parsed) -> None:
    """Subscribe, or take partitions."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    topic, include = options.text("topic"), options.text("include")
    known = consumer.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics
    if topic is not None and known[topic].error is not None:
        raise AdminError(f"Topic '{topic}' cannot be read: {known[topic].error.str()}")
    if options.has("group"):
        consumer.subscribe([topic if topic is not None else f"^({include})$"])
        return
    start = OFFSET_BEGINNING if options.has("from-beginning") else OFFSET_END
    offset = options.text("offset")
    if offset is not None:
        special = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
        start = special[offset] if offset in special else int(offset)
    wanted = re.compile(re.escape(topic) if topic is not None else include or "")
    only = options.number("partition")
    found = [
        TopicPartition(name, partition, start)
        for name, one in sorted(known.items())
        if wanted.fullmatch(name)
        for partition in sorted(one.partitions)
        if only is None or partition == only
    ]
    if not found:
        what = f"Topic '{topic}' has no partition {only}" if topic else f"No topic is a {include}"
        raise AdminError(what)
    consumer.assign(found)


def _lines(consumer: Any, formatter: Formatter, options: Parsed) -> Any:
    """Yield what is printed of each record, to the last one that is wanted."""
    left, timeout_ms = options.number("max-messages"), options.number("timeout-ms")
    heard = time.monotonic()
    while left is None or left > 0:
        asked = MESSAGES_MAX if left is None else min(left, MESSAGES_MAX)
        for message in consumer.consume(asked, POLL_S):
            if message.error() is not None:
                _check(message.error())
                continue
            heard = time.monotonic()
            try:
                line = formatter.line(_shown(message))
            except AdminError as error:
                if not options.has("skip-message-on-error"):
                    where = f"{message.topic()}-{message.partition()}"
                    raise AdminError(f"{where}, offset {message.offset()}: {error}") from error
                continue
            yield line
            left = None if left is None else left - 1
        if timeout_ms is not None and (time.monotonic() - heard) * 1000 >= timeout_ms:
            return


def _check(error: Any) -> None:
    """Go on after what passes.

    Raises:
        AdminError: it does not.
    """
    if error.fatal() or not (error.retriable() or error.name() in _PASSING):
        raise AdminError(error.str())


def _shown(message: Any) -> ShownRecord:
    kind, timestamp = message.timestamp()
    return ShownRecord(
        partition=message.partition(),
        offset=message.offset(),
        epoch=message.leader_epoch(),
        timestamp_type=kind if timestamp >= 0 else NO_TIMESTAMP,
        timestamp=timestamp,
        headers=message.headers() or (),
        key=message.key(),
        value=message.value(),
    )
