"""Arguments of jbod-dump-log, as Kafka's tool takes them, and a few of its own."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from jbodlab.config.key_table import parse_integer

DESCRIPTION = "Prints log segments, snapshots, indexes and producer snapshots."
DEFAULT_DECODER = "org.apache.kafka.tools.api.StringDecoder"

UNSUPPORTED = (
    ("--transaction-log-decoder", "__transaction_state"),
    ("--remote-log-metadata-decoder", "__remote_log_metadata"),
    ("--share-group-state-decoder", "__share_group_state"),
)
"""Decoders of topics that a cluster of this project does not have."""


class DumpParser(argparse.ArgumentParser):
    """A parser that tells usage on the standard error output and ends with exit code 1."""

    def error(self, message: str) -> NoReturn:
        """Print message and usage, and exit."""
        print(message, file=sys.stderr)
        self.print_help(sys.stderr)
        self.exit(1)


def parser() -> DumpParser:
    """Return the parser of the command line."""
    top = DumpParser(
        prog="jbod-dump-log", description=DESCRIPTION, allow_abbrev=False, add_help=False
    )
    add = top.add_argument
    add("--files", metavar="FILE,...", help="REQUIRED: comma-separated files to print")
    add(
        "--cluster-metadata-decoder", action="store_true", help="decode records of the metadata log"
    )
    add("--offsets-decoder", action="store_true", help="decode records of __consumer_offsets")
    add("--print-data-log", action="store_true", help="print keys and payloads of records")
    add("--deep-iteration", action="store_true", help="print records in addition to batches")
    add("--skip-record-metadata", action="store_true", help="print only the payloads of records")
    add("--json", action="store_true", help="print one JSON object per line")
    add(
        "--kafka-release",
        metavar="X.Y",
        help="Kafka release whose output format to use (default: the release that wrote the "
        "file, if it can be detected)",
    )
    add(
        "--key-decoder-class",
        metavar="CLASS",
        nargs="?",
        const=DEFAULT_DECODER,
        help=f"StringDecoder, IntegerDecoder or LongDecoder (default: {DEFAULT_DECODER})",
    )
    add(
        "--value-decoder-class",
        metavar="CLASS",
        nargs="?",
        const=DEFAULT_DECODER,
        help=f"StringDecoder, IntegerDecoder or LongDecoder (default: {DEFAULT_DECODER})",
    )
    add(
        "--index-sanity-check",
        action="store_true",
        help="check indexes as a broker does when it starts",
    )
    add("--verify-index-only", action="store_true", help="check indexes without printing entries")
    add("--max-bytes", type=_size, metavar="BYTES", help="maximum bytes to read of each log")
    add(
        "--max-message-size",
        type=_size,
        metavar="BYTES",
        default=5_242_880,
        help="accepted, but has no effect: index checks read batch headers only",
    )
    for option, topic in UNSUPPORTED:
        add(option, action="store_true", help=f"not supported: records of {topic}")
    add("--version", action="store_true", help="print the version and exit")
    add("--help", action="store_true", help="print this text and exit")
    return top


def _size(text: str) -> int:
    number = parse_integer(text)
    if not 0 <= number <= 2**31 - 1:
        raise ValueError(text)
    return number
