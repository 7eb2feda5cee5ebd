"""jbodlab records: the lines of stdin into a topic, and the records of a topic to stdout."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

from admin_tool import consuming, producing
from admin_tool.client import add_partition
from jbodlab.cli.command import About, Command
from jbodlab.cli.parser import Parser

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")


def _produce_arguments(parser: Parser) -> None:
    _both(parser, r"what separates key and value of a line, such as : or \t; default: no keys")
    text = "who acknowledges: all in-sync replicas (default), the leader, nobody"
    parser.add_argument("--acks", choices=("all", "1", "0"), default="all", help=text)


def _consume_arguments(parser: Parser) -> None:
    _both(parser, r"print keys too, with this text behind them, such as : or \t")
    text = "beginning (default), end or an offset; in a group only where it has committed none"
    parser.add_argument(
        "--from", dest="start", metavar="WHERE", type=start, default="beginning", help=text
    )
    parser.add_argument("--max", metavar="N", type=int, help="end after so many records")
    text = "end after so long without a record, such as 10s; default: at Ctrl-C"
    parser.add_argument("--timeout", metavar="TIME", type=seconds, help=text)
    parser.add_argument("--group", help="read as a member of this group and commit its offsets")


def _both(parser: Parser, separator_help: str) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("--key-separator", metavar="TEXT", type=separator, help=separator_help)
    add_partition(parser)
    text = "a property of the client, such as compression.type=zstd; may be repeated"
    parser.add_argument("--property", metavar="KEY=VALUE", action="append", default=[], help=text)


def separator(text: str) -> str:
    r"""Read a separator; a shell hands a tab on as the two characters \t."""
    if not text:
        raise ArgumentTypeError("expected at least one character")
    return text.replace("\\t", "\t")


def seconds(text: str) -> float:
    """Read a duration such as 500ms, 10s or 2m."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"expected a duration such as 500ms, 10s or 2m, got {text!r}")
    return float(found[1]) * _SECONDS[found[2]]


def start(text: str) -> str | int:
    """Read the value of `--from`."""
    if text in ("beginning", "end"):
        return text
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentTypeError(f"expected beginning, end or an offset, got {text!r}")
    return int(text)


VERBS = {
    "produce": Command(
        help="write the lines of stdin to a topic, each as a record",
        run=producing.run,
        arguments=_produce_arguments,
        examples=(
            "records produce orders < lines.txt",
            "records produce orders --key-separator : --property compression.type=zstd",
        ),
        about=About.SERVERS,
    ),
    "consume": Command(
        help="print the records of a topic",
        run=consuming.run,
        arguments=_consume_arguments,
        examples=(
            "records consume orders --partition 0 --from 1200 --max 10 --output json",
            "records consume orders --group readers --timeout 10s",
        ),
        about=About.SERVERS,
        reads=True,
    ),
}
