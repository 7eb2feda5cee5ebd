"""jbod-console-consumer: print records, as Kafka's own tool does.

Exit codes: 0 done; 1 wrong usage or failed; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from admin_tool import command
from admin_tool.command import Tool
from admin_tool.errors import UsageError
from admin_tool.options import COMMON, Option, Parsed

DEFAULT_FORMATTER, NO_FORMATTER = "DefaultMessageFormatter", "NoOpMessageFormatter"
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")

OPTIONS = (
    *COMMON,
    Option(name="topic", value="topic", help="The topic to read."),
    Option(name="include", value="regex", help="The topics to read, a regular expression."),
    Option(
        name="group",
        value="id",
        help="Read as a member of this group, and commit. Without: all partitions, of no group.",
    ),
    Option(name="partition", value="number", help="Read only this partition; not in a group."),
    Option(
        name="offset",
        value="offset",
        help="With --partition: where to begin: earliest, latest or a number. Default: latest.",
    ),
    Option(
        name="from-beginning",
        help="Begin at the earliest record, where the group has no offset; else at the latest.",
    ),
    Option(name="max-messages", value="number", help="End after so many records."),
    Option(name="timeout-ms", value="ms", help="End when no record came for so long."),
    Option(
        name="isolation-level",
        value="level",
        help="read_committed or read_uncommitted. Default: read_uncommitted.",
    ),
    Option(
        name="property",
        value="key=value",
        repeatable=True,
        help="What to print: print.timestamp, print.partition, print.offset, print.epoch, "
        "print.headers, print.key, print.value (true or false); key.separator, line.separator, "
        "headers.separator, null.literal; key.deserializer, value.deserializer, "
        "headers.deserializer. May be repeated.",
    ),
    Option(name="formatter-property", value="key=value", repeatable=True, help="As --property."),
    Option(name="formatter-config", value="file", help="Property file with the same."),
    Option(
        name="formatter",
        value="class",
        help="DefaultMessageFormatter, the default, or NoOpMessageFormatter, which prints nothing. "
        "Records of __consumer_offsets are shown by jbod-dump-log --offsets-decoder.",
    ),
    Option(name="key-deserializer", value="class", help="As the property key.deserializer."),
    Option(name="value-deserializer", value="class", help="As the property value.deserializer."),
    Option(name="skip-message-on-error", help="Leave records out that cannot be deserialized."),
    Option(
        name="command-property",
        value="key=value",
        repeatable=True,
        help="A setting of the client, librdkafka; may be repeated.",
    ),
    Option(
        name="consumer-property", value="key=value", repeatable=True, help="As --command-property."
    ),
    Option(name="consumer.config", value="file", help="As --command-config."),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Print records; returns the exit code."""
    return command.run(TOOL, argv)


def check(options: Parsed) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: they do not.
    """
    if options.words:
        raise UsageError(f"{options.words[0]} is not a recognized option")
    options.require("bootstrap-server")
    if options.has("topic") == options.has("include"):
        raise UsageError("Exactly one of --include/--topic is required.")
    if options.has("partition"):
        if not options.has("topic"):
            raise UsageError("The topic is required when partition is specified.")
        if options.has("group"):
            raise UsageError("Options group and partition cannot be specified together.")
    elif options.has("offset"):
        raise UsageError("The partition is required when offset is specified.")
    if options.has("from-beginning") and options.has("offset"):
        raise UsageError("Options from-beginning and offset cannot be specified together.")
    offset = options.text("offset") or "latest"
    if offset not in ("earliest", "latest") and not (offset.isascii() and offset.isdecimal()):
        raise UsageError(
            f"The provided offset value '{offset}' is incorrect. "
            "Valid values are 'earliest', 'latest', or a non-negative long."
        )
    level = options.text("isolation-level") or ISOLATION_LEVELS[0]
    if level not in ISOLATION_LEVELS:
        raise UsageError(f"{level} is no isolation level: {', '.join(ISOLATION_LEVELS)}")
    formatter = options.text("formatter") or DEFAULT_FORMATTER
    if formatter.rpartition(".")[2] not in (DEFAULT_FORMATTER, NO_FORMATTER):
        known = f"{DEFAULT_FORMATTER} and {NO_FORMATTER}"
        raise UsageError(f"formatter {formatter} is not available, only {known} are")
    for name in ("partition", "max-messages", "timeout-ms"):
        options.number(name)


def _run(options: Parsed) -> int:
    check(options)
    # Loaded late, so that a wrong command line is answered at once.
    from admin_tool.console import consume

    return consume.run(options)


TOOL = Tool(
    summary="This tool helps to read records of topics and prints them.",
    options=OPTIONS,
    run=_run,
    failure=lambda error: f"Error: {error}",
)


if __name__ == "__main__":
    sys.exit(main())
