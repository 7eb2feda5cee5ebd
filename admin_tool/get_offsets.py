"""jbod-get-offsets: the offsets of partitions at a time, as Kafka's own tool prints them.

Exit codes: 0 done; 1 wrong usage or failed; 130 after Ctrl-C. A partition whose offset cannot be
had is told on the standard error output, and the others are printed all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from admin_tool import command
from admin_tool.command import Tool
from admin_tool.errors import UsageError
from admin_tool.options import COMMON, DEFAULT_TIMEOUT_MS, Option, Parsed, timeout_ms

TIMES: Mapping[str, int] = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}

OPTIONS = (
    *COMMON,
    Option(
        name="topic",
        value="topic",
        help="The topics, a regular expression. Default: all. Not with --topic-partitions.",
    ),
    Option(name="partitions", value="0,1,...", help="Partitions of the topics. Default: all."),
    Option(
        name="topic-partitions",
        value="topic[:0],topic:1-3,...",
        help="Topics, regular expressions, each with a partition or a range without its end.",
    ),
    Option(
        name="time",
        value="time",
        help="latest or -1, earliest or -2, max-timestamp or -3, earliest-local or -4, "
        "latest-tiered or -5, earliest-pending-upload or -6, or milliseconds since 1970: the first "
        "record of that time or later. Default: latest.",
    ),
    Option(name="exclude-internal-topics", help="Leave internal topics out."),
    Option(
        name="timeout",
        value="ms",
        help=f"How long to wait for leaders that move. Default: {DEFAULT_TIMEOUT_MS}.",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Print offsets; returns the exit code."""
    return command.run(TOOL, argv)


def check(options: Parsed) -> int:
    """Return the timestamp asked for.

    Raises:
        UsageError: the options do not go together.
    """
    if options.words:
        raise UsageError(f"{options.words[0]} is not a recognized option")
    options.require("bootstrap-server")
    if options.has("topic-partitions") and (options.has("topic") or options.has("partitions")):
        raise UsageError("--topic-partitions cannot be used with --topic or --partitions")
    timeout_ms(options)
    return read_time(options.text("time") or "latest")


def read_time(text: str) -> int:
    """Return a timestamp, or the number of a special one.

    Raises:
        UsageError: it is neither.
    """
    if text in TIMES:
        return TIMES[text]
    try:
        found = int(text)
    except ValueError:
        found = min(TIMES.values()) - 1
    if found < min(TIMES.values()):
        known = ", ".join(f"{name} or {number}" for name, number in TIMES.items())
        raise UsageError(
            f"Malformed time argument {text}: it has to be {known}, or milliseconds since 1970"
        )
    return found


def _run(options: Parsed) -> int:
    timestamp = check(options)
    # Loaded late, so that a wrong command line is answered at once.
    from admin_tool import partition_offsets

    return partition_offsets.run(options, timestamp)


TOOL = Tool(
    summary="This tool helps to get the offsets of partitions.",
    options=OPTIONS,
    run=_run,
    failure=lambda error: f"Error occurred: {error}",
)


if __name__ == "__main__":
    sys.exit(main())
