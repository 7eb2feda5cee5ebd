"""`jbodlab why`: why a partition, directory or broker is offline, fenced, unassigned or leaderless.

The log is read without Spark; the answer names the state at a moment, the chain of records that led
to it, and what to do next. `--output json` gives the values that the text is made of, as
`docs/for-analysts.md` describes them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from analytics.ask import cluster_answers, partition
from analytics.ask.answer import Json
from analytics.ask.assumptions import assumed_min_isr
from analytics.ask.cluster import read_cluster
from analytics.ask.offline_log import OfflineLog
from analytics.ask.partition_states import partition_states
from analytics.ask.texts import text_of
from analytics.machine import complete_input
from jbodlab.cli.output import Output


def run(options: argparse.Namespace, output: Output) -> int:
    """Answer; returns the exit code.

    Raises:
        ReplayInputError: there is no answer.
    """
    complete_input(options, output)
    log = OfflineLog(*options.input)
    answer = _answer(options, log)
    report_problems(output, log.problems)
    text = text_of(answer["kind"], answer)
    output.result({**answer, "problems": log.problems}, text)
    return 0


def report_problems(output: Output, problems: Sequence[str]) -> None:
    """Say on standard error what is wrong with a log that was read all the same."""
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        output.note(f"jbodlab: the log has problems: {problems[0]}{more}")


def _answer(options: argparse.Namespace, log: OfflineLog) -> Json:
    at = log.at(options.at)
    records, dropped = log.common_records(at.offset)
    cluster = read_cluster(records, assumed_min_isr(options))
    name: str = options.name
    if options.verb == "partition":
        return partition.answer(log, cluster, dropped, at, name)
    if options.verb == "directory":
        cluster_answers.parse_directory(name)
    states = partition_states(log, cluster, records, dropped, at.offset)
    if options.verb == "directory":
        return cluster_answers.directory_answer(cluster, states, at, name)
    return cluster_answers.broker_answer(cluster, states, at, name)
