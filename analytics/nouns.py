"""`jbodlab replay`, `why`, and the log as a source of `what-if`: arguments, and how they start.

The modules that they import take a second or two. An interrupt before everything is there leaves
nothing behind, not even a trace; from then on the command itself handles interrupts.
"""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from analytics.ask.assumptions import add_options
from analytics.ask.directory_paths import add_option
from analytics.engines import LOCAL, SPARK
from analytics.source.requirements import FOR_REPLAY, check_requirements
from jbodlab.cli.command import About, Command
from jbodlab.cli.command_line import INTERRUPTED
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser

if TYPE_CHECKING:
    from jbodlab.what_if.cluster import Cluster

MOMENT = "an offset, a time such as 2026-01-31T12:00:00Z, or ms since 1970"


def _carried_out_by(
    noun: str, module: str, needed: Mapping[str, str]
) -> Callable[[Namespace, Output], int]:
    """Return the `run` of a command: that of a module, which is imported when it is called."""

    def run(options: Namespace, output: Output) -> int:
        before = signal.signal(signal.SIGINT, _leave)
        try:
            check_requirements(f"jbodlab {noun}", needed)
            carry_out = import_module(f"{__package__}.{module}").run
        finally:
            signal.signal(signal.SIGINT, before)
        code: int = carry_out(options, output)
        return code

    return run


def _leave(_: int, __: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _add_input(parser: Parser) -> None:
    parser.add_argument(
        "--input",
        action="append",
        metavar="URI",
        help="__cluster_metadata-0, a folder or archive of it; again for each copy (default: the "
        "log of a cluster of this machine)",
    )
    parser.add_argument("--at", metavar="MOMENT", help=f"{MOMENT} (default: the end of the log)")
    add_options(parser)


def _adds_subject(verb: str, metavar: str, text: str) -> Callable[[Parser], None]:
    def add(parser: Parser) -> None:
        parser.add_argument("name", metavar=metavar, help=text)
        parser.set_defaults(verb=verb)
        _add_input(parser)

    return add


def add_what_if_source(parser: Parser) -> None:
    """Add the options of the metadata log, as a source of `jbodlab what-if`."""
    _add_input(parser)
    add_option(parser)


def read_what_if_source(options: Namespace, output: Output) -> Cluster:
    """Read a cluster from a metadata log, for `jbodlab what-if`.

    Raises:
        ReplayInputError: there is no answer.
    """
    check_requirements("jbodlab what-if", FOR_REPLAY)
    from analytics.ask.what_if import read

    return read(options, output)


def _add_replay(parser: Parser) -> None:
    parser.description = (
        "Replay metadata logs into Parquet tables, and print a short report; without --input the\n"
        "log of a cluster of this machine.\n"
        f"MOMENT is {MOMENT}.\n"
        "Exit code 2 if the condition of --fail-on holds."
    )
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


_WHY = _carried_out_by("why", "ask.why", FOR_REPLAY)
_LOG = "--input meta/__cluster_metadata-0"

REPLAY = Command(
    help="replay a metadata log into tables and a report",
    arguments=_add_replay,
    run=_carried_out_by("replay", "job.command", FOR_REPLAY),
    about=About.EITHER,
    prints="Replayed",
    examples=(
        "replay",
        f"replay {_LOG} --results out",
        "replay --input 'logs/*' --results out --fail-on 'outages > 0'",
        "replay --results out --as-of 2026-01-31T12:00:00Z",
    ),
)
WHY = {
    "partition": Command(
        help="tell why a partition is as it is",
        arguments=_adds_subject("partition", "TOPIC-N", "a partition, such as orders-3"),
        run=_WHY,
        about=About.EITHER,
        prints="WhyPartition",
        examples=("why partition orders-3", f"why partition orders-3 {_LOG}"),
    ),
    "directory": Command(
        help="tell why a log directory is as it is",
        arguments=_adds_subject("directory", "ID", "id of a log directory"),
        run=_WHY,
        about=About.EITHER,
        prints="WhyDirectory",
        examples=(f"why directory 9Vn0cbJQRZ2zPCkHhKxJdQ {_LOG}",),
    ),
    "broker": Command(
        help="tell why a broker is as it is",
        arguments=_adds_subject("broker", "N", "id of a broker"),
        run=_WHY,
        about=About.EITHER,
        prints="WhyBroker",
        examples=("why broker 2", f"why broker 2 {_LOG} --at 2026-01-31T12:00:00Z"),
    ),
}
