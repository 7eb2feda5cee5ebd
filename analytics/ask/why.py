"""`jbodlab why`: why a partition, directory or broker is offline, fenced, unassigned or leaderless.

The log is read without Spark; the answer names the state at a moment, the chain of records that led
to it, and what to do next. `--output json` gives the values that the text is made of, as
`docs/for-analysts.md` describes them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from analytics.ask import cluster_answers, partition
from analytics.ask.assumptions import assumed_min_isr
from analytics.ask.cluster import Cluster, read_cluster
from analytics.ask.offline_log import At, OfflineLog
from analytics.ask.texts import text_of
from analytics.engines.duck import DuckEngine
from analytics.machine import complete_input
from jbodlab.cli.output import Output

if TYPE_CHECKING:
    from jbodlab.cli.results import WhyBroker, WhyDirectory, WhyPartition

Why: TypeAlias = "WhyPartition | WhyDirectory | WhyBroker"

_ANSWERS: Mapping[str, Callable[[DuckEngine, Cluster, At, str], Why]] = {
    "partition": partition.answer,
    "directory": cluster_answers.directory_answer,
    "broker": cluster_answers.broker_answer,
}


def run(options: argparse.Namespace, output: Output) -> int:
    """Answer; returns the exit code.

    Raises:
        ReplayInputError: there is no answer.
    """
    complete_input(options, output)
    log = OfflineLog(*options.input)
    answer = _answer(options, log)
    report_problems(output, log.problems)
    answer["problems"] = log.problems
    output.result(answer, text_of(answer["kind"], answer))
    return 0


def report_problems(output: Output, problems: Sequence[str]) -> None:
    """Say on standard error what is wrong with a log that was read all the same."""
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        output.note(f"jbodlab: the log has problems: {problems[0]}{more}")


def _answer(options: argparse.Namespace, log: OfflineLog) -> Why:
    at = log.at(options.at)
    assumed = assumed_min_isr(options)
    name: str = options.name
    topic = about = None
    match options.verb:
        case "partition":
            topic, _ = partition.split(name)
        case "directory":
            about = cluster_answers.in_directory(name, "partition_change.")
        case "broker":
            about = cluster_answers.on_broker(name, "partition_change.")
    with log.tables(at, assumed, topic=topic, about=about) as tables:
        cluster = read_cluster(tables, assumed)
        return _ANSWERS[options.verb](tables, cluster, at, name)
