"""jbodlab topics create, alter and delete."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

from admin_tool.connecting import connected
from admin_tool.topic_actions import selection
from jbodlab.cli.output import Output, counted
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin import topics
from jbodlab.kafka_admin.errors import AdminError, RequestError
from jbodlab.vocabulary.error_code import ErrorCode


def assignment(text: str) -> list[list[int]]:
    """Return the brokers of each partition from a text such as `1:2,2:3`, as an argument's type.

    Raises:
        ArgumentTypeError: an entry is not a broker id, a broker occurs twice in a partition, or
            partitions have different numbers of replicas.
    """
    found: list[list[int]] = []
    for part in text.split(","):
        ids = [one.strip() for one in part.split(":")]
        if not all(one.isascii() and one.isdecimal() for one in ids):
            raise ArgumentTypeError(
                f"expected brokers of each partition, such as 1:2,2:3, got {text!r}"
            )
        brokers = [int(one) for one in ids]
        if len(set(brokers)) < len(brokers):
            raise ArgumentTypeError(f"a broker occurs twice in {part!r}")
        if found and len(brokers) != len(found[0]):
            raise ArgumentTypeError(
                f"{part!r} has {counted(len(brokers), 'replica')}, the first partition has "
                f"{len(found[0])}"
            )
        found.append(brokers)
    return found


async def create(options: Namespace, output: Output) -> int:
    """Create a topic; returns the exit code."""
    if options.assignment and (options.partitions or options.replication_factor):
        raise UsageError("--assignment excludes --partitions and --replication-factor")
    name = options.topic
    async with connected(options) as client:
        try:
            await topics.create_topic(
                client,
                name,
                dict(options.config),
                partitions=options.partitions,
                replication_factor=options.replication_factor,
                assignment=options.assignment,
            )
        except RequestError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or not options.if_not_exists:
                raise
            output.line(f"topic {name} exists already")
            return 0
    output.line(f"created topic {name}")
    return 0


async def alter(options: Namespace, output: Output) -> int:
    """Give topics more partitions (for configs see `jbodlab configs alter`)."""
    selection.check(options, needs_one=True)
    async with connected(options) as client:
        found = selection.select(await topics.list_topics(client), options.topics, options.matching)
        added = {}
        if options.assignment is not None:
            described = await topics.describe_topics(client, found)
            added = {
                name: options.assignment[len(topic.partitions) :]
                for name, topic in described.items()
            }
        await topics.create_partitions(client, dict.fromkeys(found, options.partitions), added)
    for name in found:
        output.line(f"topic {name} has {counted(options.partitions, 'partition')}")
    return 0


async def delete(options: Namespace, output: Output) -> int:
    """Delete topics; returns the exit code."""
    selection.check(options, needs_one=True)
    async with connected(options) as client:
        found = selection.select(
            await topics.list_topics(client),
            options.topics,
            options.matching,
            may_miss=options.if_exists,
        )
        if not found:
            return 0
        noun = "topic" if len(found) == 1 else "topics"
        output.confirm(f"delete {noun} {', '.join(found)}?", yes=options.yes)
        refused = await topics.delete_topics(client, found)
    for name in found:
        if name not in refused:
            output.line(f"deleted topic {name}")
    if refused:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise AdminError(f"cannot delete {reasons}")
    return 0
