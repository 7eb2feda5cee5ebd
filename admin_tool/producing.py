"""jbodlab records produce: every line of stdin is a record that is acknowledged or counted."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from admin_tool.client import connected, counted, partitions_of
from admin_tool.errors import AdminError
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError

POLL_S = 0.2
ANY_PARTITION = -1
"""Leaves the choice to the library: by the key, else as it likes."""
DELIVERY_TIMEOUT_MS = 30_000
"""How long a record is tried; a property may say otherwise."""


class Deliveries:
    """Counts records that were sent, and those of them that were acknowledged."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self._failure = ""

    def __call__(self, error: Any, _message: Any) -> None:
        """Note the outcome of one record."""
        if error is None:
            self.acknowledged += 1
        elif not self._failure:
            self._failure = error.str()

    def check(self) -> None:
        """Insist that every record is acknowledged.

        Raises:
            AdminError: some are not.
        """
        missing = self.sent - self.acknowledged
        if missing:
            were = f"{counted(self.sent, 'record')} {'was' if missing == 1 else 'were'}"
            raise AdminError(f"{missing} of {were} not acknowledged: {self._failure}")


def run(options: Namespace, output: Output) -> int:
    """Write the lines of stdin; returns the exit code."""
    if len(options.partition) > 1:
        raise UsageError("--partition: expected one partition")
    defaults = {
        "acks": options.acks,
        # Without it a record that is sent again may be there twice, or behind a later one.
        "enable.idempotence": options.acks == "all",
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
    }
    deliveries = Deliveries()
    with connected("Producer", options, defaults) as (producer, topics):
        partitions_of(topics, options.topic, options.partition)
        partition = next(iter(options.partition), ANY_PARTITION)
        is_person = sys.stdin.isatty()
        if is_person:
            output.note("type records, one on each line; end with Ctrl-D")
        try:
            for number, line in enumerate(sys.stdin.buffer, 1):
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                key, value = split(text, options.key_separator, number)
                _send(
                    producer, deliveries, options.topic, key=key, value=value, partition=partition
                )
                if is_person:
                    _flush(producer)
                    deliveries.check()
        finally:
            _flush(producer)
            written = counted(deliveries.acknowledged, "record")
            output.note(f"{written} produced to {options.topic}")
    deliveries.check()
    return 0


def split(line: bytes, separator: str | None, number: int) -> tuple[bytes | None, bytes]:
    """Return key and value of the line of that number; without a separator lines have no keys.

    Raises:
        AdminError: the separator is missing.
    """
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    if not found:
        shown = line.decode(errors="replace")
        raise AdminError(f"line {number}: expected KEY{separator}VALUE, got {shown!r}")
    return key, value


def _send(producer: Any, deliveries: Deliveries, topic: str, **record: Any) -> None:
    while True:
        try:
            producer.produce(topic, on_delivery=deliveries, **record)
        except BufferError:
            # Ends: each record that waits is delivered or given up.
            producer.poll(POLL_S)
        else:
            deliveries.sent += 1
            producer.poll(0)
            return


def _flush(producer: Any) -> None:
    """Wait until each record is acknowledged or given up; in steps, so that Ctrl-C ends it."""
    while producer.flush(POLL_S):
        pass
