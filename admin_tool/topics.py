"""jbod-topics: list, describe, create, alter and delete topics, as Kafka's own tool does.

Exit codes: 0 done; 1 wrong usage or failed; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from admin_tool import command
from admin_tool.command import Tool
from admin_tool.errors import UsageError
from admin_tool.options import COMMON, Option, Parsed

ACTIONS = ("list", "describe", "create", "alter", "delete")

OPTIONS = (
    *COMMON,
    Option(name="list", help="List the topics."),
    Option(
        name="describe",
        help="Describe topics and their partitions. Beyond Kafka's columns, the last one names the "
        "offline replicas: those on a dead broker or in a dead log directory.",
    ),
    Option(name="create", help="Create a topic."),
    Option(name="alter", help="Give topics more partitions."),
    Option(name="delete", help="Delete topics."),
    Option(
        name="topic",
        value="topic",
        help="The topic; a regular expression, except with --create.",
    ),
    Option(
        name="topic-id",
        value="id",
        help="The topic to describe, by its id; counts more than --topic.",
    ),
    Option(name="partitions", value="number", help="How many partitions the topic shall have."),
    Option(name="replication-factor", value="number", help="Replicas of each new partition."),
    Option(
        name="replica-assignment",
        value="b:b,b:b,...",
        help="The brokers of each partition: commas between partitions, colons between brokers.",
    ),
    Option(
        name="config",
        value="key=value",
        repeatable=True,
        help="A setting of the new topic; may be repeated.",
    ),
    Option(name="if-exists", help="A topic that does not exist is no failure."),
    Option(name="if-not-exists", help="A topic that exists already is no failure."),
    Option(name="exclude-internal", help="Leave internal topics out."),
    Option(
        name="under-replicated-partitions",
        help="Describe only partitions with fewer in-sync replicas than replicas.",
    ),
    Option(name="unavailable-partitions", help="Describe only partitions without a live leader."),
    Option(
        name="under-min-isr-partitions",
        help="Describe only partitions with fewer in-sync replicas than min.insync.replicas.",
    ),
    Option(
        name="at-min-isr-partitions",
        help="Describe only partitions with exactly min.insync.replicas in-sync replicas.",
    ),
    Option(
        name="topics-with-overrides",
        help="Describe only topics with settings of their own, without their partitions.",
    ),
    Option(
        name="partition-size-limit-per-response",
        value="number",
        help="How many partitions to ask for at a time.",
    ),
)

_REPORTS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
PERMITTED = {
    "list": {"topic", "exclude-internal"},
    "create": {
        *("topic", "partitions", "replication-factor", "replica-assignment", "config"),
        "if-not-exists",
    },
    "alter": {"topic", "partitions", "replica-assignment", "if-exists"},
    "delete": {"topic", "if-exists"},
    "describe": {
        *("topic", "topic-id", "exclude-internal", "if-exists", "topics-with-overrides"),
        "partition-size-limit-per-response",
        *_REPORTS,
    },
}
_ALWAYS = {option.name for option in COMMON} | set(ACTIONS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return command.run(TOOL, argv)


def check(options: Parsed) -> str:
    """Return the action asked for.

    Raises:
        UsageError: there is not exactly one, or the options do not go with it.
    """
    actions = [name for name in ACTIONS if options.has(name)]
    if len(actions) != 1:
        raise UsageError(
            "Command must include exactly one action: "
            "--list, --describe, --create, --alter or --delete"
        )
    (action,) = actions
    if options.words:
        raise UsageError(f"{options.words[0]} is not a recognized option")
    options.require("bootstrap-server")
    if action in ("create", "alter", "delete"):
        options.require("topic")
    if action == "describe" and options.has("if-exists") and not options.has("topic-id"):
        options.require("topic")
    if action == "alter" and options.has("config"):
        raise UsageError(
            'Option "[alter]" can\'t be used with option "[config]" '
            "(the settings of topics are changed with kafka-configs)"
        )
    for name in options.values:
        if name not in _ALWAYS | PERMITTED[action]:
            raise UsageError(f'Option "[{name}]" can\'t be used with option "[{action}]"')
    if action == "alter":
        options.require("partitions")
    if action == "create":
        options.exclude("replica-assignment", ("partitions", "replication-factor"))
    for report in _REPORTS:
        options.exclude(report, ("topics-with-overrides",))
    return action


def _run(options: Parsed) -> int:
    action = check(options)
    # Loaded late, so that a wrong command line is answered at once.
    match action:
        case "list":
            from admin_tool.topic_actions import listing

            return listing.run(options)
        case "describe":
            from admin_tool.topic_actions import describe

            return describe.run(options)
        case "create":
            from admin_tool.topic_actions import create

            return create.run(options)
        case "alter":
            from admin_tool.topic_actions import alter

            return alter.run(options)
        case _:
            from admin_tool.topic_actions import delete

            return delete.run(options)


TOOL = Tool(
    summary="This tool helps to create, delete, describe, or change a topic.",
    options=OPTIONS,
    run=_run,
    failure=lambda error: f"Error while executing topic command : {error}",
    failures_to_stdout=True,
)


if __name__ == "__main__":
    sys.exit(main())
