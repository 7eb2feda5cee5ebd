"""jbod-console-producer: write the lines of the standard input as records, as Kafka's tool does.

Exit codes: 0 done; 1 wrong usage, or a record is not written; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from admin_tool import command
from admin_tool.command import Tool
from admin_tool.errors import UsageError
from admin_tool.options import COMMON, Option, Parsed

OPTIONS = (
    *COMMON,
    Option(name="topic", value="topic", help="REQUIRED: the topic to write to."),
    Option(
        name="property",
        value="key=value",
        repeatable=True,
        help="How to read a line: parse.key, parse.headers, ignore.error (true or false); "
        "key.separator, headers.delimiter, headers.separator, headers.key.separator; null.marker, "
        "a text that stands for null. May be repeated.",
    ),
    Option(name="reader-property", value="key=value", repeatable=True, help="As --property."),
    Option(name="reader-config", value="file", help="Property file with the same."),
    Option(name="line-reader", value="class", help="LineMessageReader, the default."),
    Option(
        name="request-required-acks",
        value="acks",
        help="Who has to have a record: all or -1, 1, or 0 for nobody. Default: -1.",
    ),
    Option(
        name="compression-codec",
        value="codec",
        is_optional=True,
        help="none, gzip, snappy, lz4 or zstd; without a value gzip.",
    ),
    Option(name="sync", help="Wait for each record before the next one is sent."),
    Option(name="batch-size", value="bytes", help="How large a batch becomes."),
    Option(name="max-partition-memory-bytes", value="bytes", help="As --batch-size."),
    Option(name="max-memory-bytes", value="bytes", help="How much may wait to be sent."),
    Option(
        name="max-block-ms", value="ms", help="How long a line may wait for room. Default: 60000."
    ),
    Option(name="metadata-expiry-ms", value="ms", help="How often leaders are asked for."),
    Option(name="socket-buffer-size", value="bytes", help="Size of the socket's send buffer."),
    Option(name="timeout", value="ms", help="How long a batch is kept for more records."),
    Option(name="message-send-max-retries", value="number", help="How often a batch is repeated."),
    Option(name="request-timeout-ms", value="ms", help="How long the broker may take."),
    Option(
        name="retry-backoff-ms", value="ms", help="How long to wait before a batch is repeated."
    ),
    Option(
        name="command-property",
        value="key=value",
        repeatable=True,
        help="A setting of the client, librdkafka; may be repeated.",
    ),
    Option(
        name="producer-property", value="key=value", repeatable=True, help="As --command-property."
    ),
    Option(name="producer.config", value="file", help="As --command-config."),
)
ACKS = ("all", "-1", "0", "1")
NUMBERS = (
    *("batch-size", "timeout", "message-send-max-retries", "request-timeout-ms"),
    *("retry-backoff-ms", "max-partition-memory-bytes", "max-memory-bytes", "max-block-ms"),
    *("metadata-expiry-ms", "socket-buffer-size"),
)
LINE_READER = "LineMessageReader"


def main(argv: Sequence[str] | None = None) -> int:
    """Write records; returns the exit code."""
    return command.run(TOOL, argv)


def check(options: Parsed) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: they do not.
    """
    if options.words:
        raise UsageError(f"{options.words[0]} is not a recognized option")
    options.require("bootstrap-server", "topic")
    acks = options.text("request-required-acks") or "all"
    if acks not in ACKS:
        raise UsageError(f"{acks} are no acks: {', '.join(ACKS)}")
    options.exclude("batch-size", ("max-partition-memory-bytes",))
    for name in NUMBERS:
        options.number(name)
    reader = options.text("line-reader") or LINE_READER
    if reader.rpartition(".")[2] != LINE_READER:
        raise UsageError(f"reader {reader} is not available, only {LINE_READER} is")


def _run(options: Parsed) -> int:
    check(options)
    # Loaded late, so that a wrong command line is answered at once.
    from admin_tool.console import produce

    return produce.run(options)


TOOL = Tool(
    summary="This tool helps to write lines of the standard input as records.",
    options=OPTIONS,
    run=_run,
    failure=lambda error: f"Error: {error}",
)


if __name__ == "__main__":
    sys.exit(main())
