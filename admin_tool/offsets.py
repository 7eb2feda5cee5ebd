"""jbodlab offsets: where partitions begin and end, and where a time is in them."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from admin_tool.client import TIMEOUT, add_partition, answers, connected, partitions_of, reason
from admin_tool.errors import AdminError
from jbodlab.cli.command import About, Command
from jbodlab.cli.output import Output, table
from jbodlab.cli.parser import Parser, UsageError
from jbodlab.ids import TopicPartition

INTERNAL_TOPICS = ("__consumer_offsets", "__share_group_state", "__transaction_state")
"""An expression never matches them."""
NAMED_TIMES = ("earliest", "latest", "max-timestamp")
A_TIME = "a time such as 2026-01-31T23:59:59+01:00"
_KEYS = ("topic", "partition", "offset", "timestamp")


def _arguments(parser: Parser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="the topics")
    parser.add_argument("--matching", metavar="EXPR", help="topics whose whole name matches")
    add_partition(parser)
    text = f"{', '.join(NAMED_TIMES)}, or the first record since {A_TIME}; default: latest"
    parser.add_argument("--at", metavar="WHEN", default="latest", help=text)


def run(options: Namespace, output: Output) -> int:
    """Show offsets; returns the exit code: 1 if one of them cannot be had."""
    when = options.at if options.at in NAMED_TIMES else read_time(options.at)
    if when is None:
        expected = f"{', '.join(NAMED_TIMES)} or {A_TIME}"
        raise UsageError(f"--at: expected {expected}, got {options.at!r}")
    if not options.topics and options.matching is None:
        raise UsageError("missing TOPIC or --matching")
    with connected("AdminClient", options) as (client, topics):
        named = [*options.topics, *matching(options.matching, list(topics))]
        wanted = [
            TopicPartition(name, one)
            for name in dict.fromkeys(named)
            for one in partitions_of(topics, name, options.partition)
        ]
        found = list_offsets(client, wanted, when)
    rows = []
    for one, answer in found.items():
        if isinstance(answer, Exception):
            output.note(f"cannot get the offset of {one}: {reason(answer)}")
        else:
            # Negative where no record has it.
            numbers = (answer.offset, answer.timestamp)
            rows.append((*one, *(None if number < 0 else number for number in numbers)))
    values = [dict(zip(_KEYS, row, strict=True)) for row in rows]
    output.result(values, table([key.upper() for key in _KEYS], rows))
    return int(len(rows) < len(found))


def matching(expression: str | None, known: Sequence[str]) -> list[str]:
    """Return the topics that an expression matches; internal ones are not among them.

    Raises:
        AdminError: it matches none.
        UsageError: it is not a regular expression.
    """
    if expression is None:
        return []
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise UsageError(f"--matching: not a regular expression: {error}") from error
    found = [name for name in known if pattern.fullmatch(name) and name not in INTERNAL_TOPICS]
    if not found:
        raise AdminError(f"no topic matches {expression!r}")
    return found


def read_time(text: str) -> int | None:
    """Return a time of ISO 8601 as milliseconds since 1970, UTC where it names no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def list_offsets(
    client: Any, wanted: Iterable[TopicPartition], when: str | int
) -> dict[TopicPartition, Any]:
    """Ask the leaders of partitions, at one of `NAMED_TIMES` or at milliseconds since 1970.

    Returns:
        For each partition the library's answer, or the exception instead.
    """
    import confluent_kafka
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    if isinstance(when, int):
        spec = OffsetSpec.for_timestamp(when)
    else:
        spec = getattr(OffsetSpec, when.replace("-", "_"))()
    asked = [confluent_kafka.TopicPartition(*one) for one in wanted]
    found = answers(lambda some: client.list_offsets(dict.fromkeys(some, spec), **TIMEOUT), asked)
    return {TopicPartition(one.topic, one.partition): answer for one, answer in found.items()}


COMMAND = Command(
    help="show the offsets of partitions",
    run=run,
    arguments=_arguments,
    examples=(
        "offsets orders payments --at earliest",
        "offsets --matching 'order.*' --at 2026-01-31T10:00 --output json",
    ),
    about=About.SERVERS,
    reads=True,
)
