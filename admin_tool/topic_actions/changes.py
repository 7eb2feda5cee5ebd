"""jbodlab topics create, alter and delete."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

from admin_tool.arguments import key_value, positive
from admin_tool.connecting import connected
from admin_tool.topic_actions import selection
from jbodlab.cli.command import servers_command
from jbodlab.cli.output import Output, counted
from jbodlab.cli.parser import Parser, UsageError
from jbodlab.kafka_admin import topics
from jbodlab.kafka_admin.errors import AdminError, RequestError
from jbodlab.vocabulary.error_code import ErrorCode

_ASSIGNMENT = "brokers of each partition, such as 1:2,2:3"


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
            raise ArgumentTypeError(f"expected {_ASSIGNMENT}, got {text!r}")
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


def _create_arguments(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="name of the new topic")
    parser.add_argument(
        "--partitions", metavar="N", type=positive, help="default: the cluster's num.partitions"
    )
    parser.add_argument(
        "--replication-factor",
        metavar="N",
        type=positive,
        help="default: the cluster's default.replication.factor",
    )
    parser.add_argument("--assignment", metavar="B:B,...", type=assignment, help=_ASSIGNMENT)
    parser.add_argument(
        "--config",
        metavar="KEY=VALUE",
        type=key_value,
        action="append",
        default=[],
        help="a config of the topic; may be repeated",
    )
    parser.add_argument(
        "--if-not-exists", action="store_true", help="succeed if the topic exists already"
    )


async def _create(options: Namespace, output: Output) -> int:
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


def _alter_arguments(parser: Parser) -> None:
    selection.add_topics(parser)
    parser.add_argument(
        "--partitions",
        metavar="N",
        type=positive,
        required=True,
        help="how many partitions each shall have",
    )
    parser.add_argument(
        "--assignment",
        metavar="B:B,...",
        type=assignment,
        help=f"{_ASSIGNMENT}; existing partitions keep theirs",
    )


async def _alter(options: Namespace, output: Output) -> int:
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


def _delete_arguments(parser: Parser) -> None:
    selection.add_topics(parser)
    parser.add_argument(
        "--if-exists", action="store_true", help="succeed if a topic does not exist"
    )


async def _delete(options: Namespace, output: Output) -> int:
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


CREATE = servers_command(
    help="create a topic",
    run=_create,
    arguments=_create_arguments,
    examples=(
        "topics create orders --partitions 6 --replication-factor 3",
        "topics create orders --assignment 1:2,2:3 --config retention.ms=60000",
    ),
)
ALTER = servers_command(
    help="give topics more partitions (for configs see `jbodlab configs alter`)",
    run=_alter,
    arguments=_alter_arguments,
    examples=("topics alter orders --partitions 12",),
)
DELETE = servers_command(
    help="delete topics",
    run=_delete,
    arguments=_delete_arguments,
    examples=("topics delete orders", "topics delete --matching 'test-.*' --yes"),
    asks=True,
)
