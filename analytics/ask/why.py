"""`jbod-why`: why a partition, directory or broker is offline, fenced, unassigned or leaderless.

The log is read without Spark; the answer names the state at a moment and the chain of records that
led to it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from analytics.ask import cluster_answers, partition
from analytics.ask.assumptions import add_options, assumed_min_isr
from analytics.ask.cluster import read_cluster
from analytics.ask.offline_log import OfflineLog
from analytics.ask.partition_states import partition_states
from analytics.errors import ReplayInputError
from jbodlab.command_line import INTERRUPTED, Parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line tool and return its exit code: 0 answered, 1 not."""
    options = _parser().parse_args(arguments)
    try:
        lines, problems = _answer(options)
    except ReplayInputError as error:
        sys.stderr.write(f"jbod-why: {error}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    report_problems("jbod-why", problems)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def report_problems(program: str, problems: Sequence[str]) -> None:
    """Say on standard error what is wrong with a log that was read all the same."""
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        sys.stderr.write(f"{program}: the log has problems: {problems[0]}{more}\n")


def _answer(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    log = OfflineLog(*options.input)
    at = log.at(options.at)
    records, dropped = log.common_records(at.offset)
    cluster = read_cluster(records, assumed_min_isr(options))
    name: str = options.name
    if options.what == "partition":
        return partition.answer(log, cluster, dropped, at, name), log.problems
    if options.what == "directory":
        cluster_answers.parse_directory(name)
    states = partition_states(log, cluster, records, dropped, at.offset)
    answer = (
        cluster_answers.directory_answer
        if options.what == "directory"
        else cluster_answers.broker_answer
    )
    return answer(cluster, states, at, name), log.problems


def _parser() -> Parser:
    parser = Parser(
        prog="jbod-why",
        description="Tell from a KRaft metadata log why something is offline, fenced, unassigned "
        "or leaderless: its state, and the records that led to it.",
        allow_abbrev=False,
    )
    whats = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=Parser)
    for what, metavar, text in (
        ("partition", "TOPIC-N", "a partition, as orders-3"),
        ("directory", "ID", "a log directory, by its id"),
        ("broker", "N", "a broker, by its id"),
    ):
        one = whats.add_parser(what, help=text, allow_abbrev=False)
        one.add_argument("name", metavar=metavar, help=text)
        one.add_argument(
            "--input",
            required=True,
            action="append",
            metavar="URI",
            help="__cluster_metadata-0, a folder or archive of it; again for each copy",
        )
        one.add_argument(
            "--at",
            metavar="TIME|OFFSET",
            help="moment: an offset, a time as 2026-01-31T12:00:00Z (without zone: UTC), or "
            "milliseconds since 1970; by default the end of the log",
        )
        add_options(one)
    return parser


if __name__ == "__main__":
    sys.exit(main())
