"""`jbodlab replay`, `why`, and the log as a source of `what-if`: arguments, and how they start.

The modules that they import take a second or two. An interrupt before everything is there leaves
nothing behind, not even a trace; from then on the command itself handles interrupts.
"""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from analytics.ask.assumptions import add_options
from analytics.ask.directory_paths import add_option
from analytics.engines import LOCAL, SPARK
from analytics.source.requirements import FOR_REPLAY, check_requirements
from jbodlab.cli.command_line import INTERRUPTED
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser

if TYPE_CHECKING:
    from jbodlab.what_if.cluster import Cluster

MOMENT = "an offset, a time such as 2026-01-31T12:00:00Z, or ms since 1970"


def replay(options: Namespace, output: Output) -> int:
    """Replay metadata logs into tables and a report; returns the exit code."""
    return _carried_out("replay", "job.command", options, output)


def why(options: Namespace, output: Output) -> int:
    """Tell why a partition, a directory or a broker is as it is; returns the exit code."""
    return _carried_out("why", "ask.why", options, output)


def _carried_out(noun: str, module: str, options: Namespace, output: Output) -> int:
    """Carry a command out by the `run` of a module, which is imported now."""
    before = signal.signal(signal.SIGINT, _leave)
    try:
        check_requirements(f"jbodlab {noun}", FOR_REPLAY)
        carry_out = import_module(f"{__package__}.{module}").run
    finally:
        signal.signal(signal.SIGINT, before)
    code: int = carry_out(options, output)
    return code


def _leave(_: int, __: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def add_input(parser: Parser) -> None:
    """Add the options of a metadata log and of a moment in it."""
    parser.add_argument(
        "--input",
        action="append",
        metavar="URI",
        help="__cluster_metadata-0, a folder or archive of it; again for each copy (default: the "
        "log of a cluster of this machine)",
    )
    parser.add_argument("--at", metavar="MOMENT", help=f"{MOMENT} (default: the end of the log)")
    add_options(parser)


def add_what_if_source(parser: Parser) -> None:
    """Add the options of the metadata log, as a source of `jbodlab what-if`."""
    add_input(parser)
    add_option(parser)


def read_what_if_source(options: Namespace, output: Output) -> Cluster:
    """Read a cluster from a metadata log, for `jbodlab what-if`.

    Raises:
        ReplayInputError: there is no answer.
    """
    check_requirements("jbodlab what-if", FOR_REPLAY)
    from analytics.ask.what_if import read

    return read(options, output)


def add_replay(parser: Parser) -> None:
    """Add the arguments of `jbodlab replay`."""
    add = parser.add_argument
    add(
        "--input",
        action="extend",
        nargs="+",
        metavar="URI",
        help="__cluster_metadata-0, a folder or archive of it, a pattern; NAME=URI names it",
    )
    add("--results", metavar="DIR", help="folder for tables and pages (default: a new one)")
    add(
        "--engine",
        choices=(SPARK, LOCAL),
        default=SPARK,
        help="Spark, or this process: for logs of some hundred thousand records (default: spark)",
    )
    add("--catalog", metavar="NAME", help="with Spark: save the tables in this catalog, too")
    add("--full", action="store_true", help="read unchanged clusters again, too")
    add_options(parser)
    add_option(parser)
    add(
        "--broker-logs",
        nargs="+",
        type=Path,
        default=(),
        metavar="FILE",
        help="brokers' logs, for the causes of failed directories",
    )
    add("--log-zone", metavar="ZONE", help="time zone of these logs (default: this machine's)")
    add("--named", metavar="NAME", help="with --as-of and --diff: which of several clusters")
    add("--fail-on", metavar="CONDITION", help="exit with code 2 if it holds, as 'outages > 0'")
    add("--objective", metavar="PERCENT", help="expected availability, such as 99.95")
    question = parser.add_mutually_exclusive_group()
    question.add_argument(
        "--as-of", metavar="MOMENT", help="print the state at a moment; also in DIR/as_of/"
    )
    question.add_argument(
        "--diff", nargs=2, metavar="MOMENT", help="print what differs; also in DIR/diff/"
    )
