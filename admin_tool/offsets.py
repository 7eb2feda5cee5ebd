"""jbodlab offsets: where partitions begin and end, and where a time is in them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from admin_tool.errors import unknown
from admin_tool.topic_actions.selection import check, select
from jbodlab.cli.output import Output, counted
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from jbodlab.kafka_admin.topics import list_topics
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.cli.results import PartitionOffset

NAMED_TIMES = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}
A_TIME = "a time such as 2026-01-31T23:59:59+01:00"


async def run(options: Namespace, output: Output) -> int:
    """Show offsets; returns the exit code: 1 if one of them cannot be had."""
    when = NAMED_TIMES.get(options.at, read_time(options.at))
    if when is None:
        expected = f"{', '.join(NAMED_TIMES)} or {A_TIME}"
        raise UsageError(f"--at: expected {expected}, got {options.at!r}")
    check(options, needs_one=True)
    async with connected(options) as client:
        listed = await list_topics(client)
        counts = {one.name: one.partitions for one in listed}
        wanted = [
            TopicPartition(name, one)
            for name in select(listed, options.topics, options.matching)
            for one in partitions_of(counts, name, options.partition)
        ]
        found = await list_offsets(client, wanted, when)
    rows: list[PartitionOffset] = []
    for one, answer in found.items():
        if isinstance(answer, AdminError):
            output.note(f"cannot get the offset of {one}: {answer}")
        else:
            rows.append(
                {
                    "topic": one.topic,
                    "partition": one.partition,
                    # Negative where no record has it.
                    "offset": answer.offset if answer.offset >= 0 else None,
                    "timestamp": answer.timestamp if answer.timestamp >= 0 else None,
                }
            )
    output.rows(rows)
    return int(len(rows) < len(found))


def partitions_of(counts: Mapping[str, int], topic: str, wanted: Sequence[int]) -> list[int]:
    """Return the partitions of a topic that are wanted, all where none is.

    Args:
        counts: How many partitions each topic has.
        topic: The topic.
        wanted: Numbers.

    Raises:
        AdminError: the topic or a partition does not exist.
    """
    if topic not in counts:
        raise unknown("topic", topic, counts)
    count = counts[topic]
    for partition in wanted:
        if not 0 <= partition < count:
            has = counted(count, "partition")
            raise AdminError(f"unknown partition {partition}: topic {topic!r} has {has}")
    return sorted(set(wanted or range(count)))


def read_time(text: str) -> int | None:
    """Return a time of ISO 8601 as milliseconds since 1970, UTC where it names no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
