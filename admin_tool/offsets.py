"""jbodlab offsets: where partitions begin and end, and where a time is in them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from admin_tool.arguments import add_partition
from admin_tool.client import TIMEOUT, answers, connected, partitions_of, reason
from admin_tool.topic_actions.selection import add_topics, check, select
from jbodlab.cli.command import servers_command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser, UsageError
from jbodlab.kafka_admin.topics import TopicListing
from jbodlab.vocabulary.ids import TopicPartition

UNKNOWN_ID = UUID(int=0)
INTERNAL_TOPICS = ("__consumer_offsets", "__share_group_state", "__transaction_state")
NAMED_TIMES = ("earliest", "latest", "max-timestamp")
A_TIME = "a time such as 2026-01-31T23:59:59+01:00"


def _arguments(parser: Parser) -> None:
    add_topics(parser)
    add_partition(parser)
    text = f"{', '.join(NAMED_TIMES)}, or the first record since {A_TIME}; default: latest"
    parser.add_argument("--at", metavar="WHEN", default="latest", help=text)


def run(options: Namespace, output: Output) -> int:
    """Show offsets; returns the exit code: 1 if one of them cannot be had."""
    when = options.at if options.at in NAMED_TIMES else read_time(options.at)
    if when is None:
        expected = f"{', '.join(NAMED_TIMES)} or {A_TIME}"
        raise UsageError(f"--at: expected {expected}, got {options.at!r}")
    check(options, needs_one=True)
    with connected("AdminClient", options) as (client, topics):
        listed = [
            TopicListing(name=name, topic_id=UNKNOWN_ID, is_internal=name in INTERNAL_TOPICS)
            for name in topics
        ]
        wanted = [
            TopicPartition(name, one)
            for name in select(listed, options.topics, options.matching)
            for one in partitions_of(topics, name, options.partition)
        ]
        found = list_offsets(client, wanted, when)
    rows = []
    for one, answer in found.items():
        if isinstance(answer, Exception):
            output.note(f"cannot get the offset of {one}: {reason(answer)}")
        else:
            # Negative where no record has it.
            numbers = {"offset": answer.offset, "timestamp": answer.timestamp}
            known = {key: None if number < 0 else number for key, number in numbers.items()}
            rows.append({**one._asdict(), **known})
    output.rows(rows)
    return int(len(rows) < len(found))


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


_EXAMPLES = (
    "offsets orders payments --at earliest",
    "offsets --matching 'order.*' --at 2026-01-31T10:00 --output json",
)
COMMAND = servers_command("show the offsets of partitions", run, _arguments, _EXAMPLES, reads=True)
