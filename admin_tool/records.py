"""jbodlab records: the lines of stdin into a topic, and the records of a topic to stdout."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError, Namespace
from typing import Any

from admin_tool import consuming
from admin_tool.arguments import assignment, counted, positive
from admin_tool.client import add_partition, connected, partitions_of, reason
from admin_tool.errors import AdminError
from jbodlab.cli.command import About, Command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser

POLL_S = 0.2
QUEUED_MAX = 1_000
"""Records that wait for their acknowledgement."""
DELIVERY_TIMEOUT_MS = 30_000
"""How long a record is tried; a property may say otherwise."""
ANY_PARTITION = -1
"""Leaves the choice to the library: by the key, else as it likes."""

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")


def _produce_arguments(parser: Parser) -> None:
    _both(parser, r"what separates key and value of a line, such as : or \t; default: no keys")
    text = "write to this partition; default: by the key, or any"
    parser.add_argument("--partition", metavar="N", type=int, default=ANY_PARTITION, help=text)
    text = "who acknowledges: all in-sync replicas (default), the leader, nobody"
    parser.add_argument("--acks", choices=("all", "1", "0"), default="all", help=text)


def _consume_arguments(parser: Parser) -> None:
    _both(parser, r"print keys too, with this text behind them, such as : or \t")
    add_partition(parser)
    text = "beginning (default), end or an offset; in a group only where it has committed none"
    parser.add_argument(
        "--from", dest="start", metavar="WHERE", type=start, default="beginning", help=text
    )
    parser.add_argument("--max", metavar="N", type=positive, help="end after so many records")
    text = "end after so long without a record, such as 10s; default: at Ctrl-C"
    parser.add_argument("--timeout", metavar="TIME", type=seconds, help=text)
    parser.add_argument("--group", help="read as a member of this group and commit its offsets")


def _both(parser: Parser, separator_help: str) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("--key-separator", metavar="TEXT", type=separator, help=separator_help)
    text = "a property of the client, such as compression.type=zstd; may be repeated"
    parser.add_argument(
        "--property", metavar="KEY=VALUE", type=assignment, action="append", default=[], help=text
    )


def separator(text: str) -> str:
    r"""Read a separator; a shell hands a tab on as the two characters \t."""
    if not text:
        raise ArgumentTypeError("expected at least one character")
    return text.replace("\\t", "\t")


def seconds(text: str) -> float:
    """Read a duration such as 500ms, 10s or 2m."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"expected a duration such as 500ms, 10s or 2m, got {text!r}")
    return float(found[1]) * _SECONDS[found[2]]


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


VERBS = {
    "produce": Command(
        help="write the lines of stdin to a topic, each as a record",
        run=produce,
        arguments=_produce_arguments,
        examples=(
            "records produce orders < lines.txt",
            "records produce orders --key-separator : --property compression.type=zstd",
        ),
        about=About.SERVERS,
    ),
    "consume": Command(
        help="print the records of a topic",
        run=consuming.run,
        arguments=_consume_arguments,
        examples=(
            "records consume orders --partition 0 --from 1200 --max 10 --output json",
            "records consume orders --group readers --timeout 10s",
        ),
        about=About.SERVERS,
        reads=True,
    ),
}
