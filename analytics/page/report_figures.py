"""Every figure of the report, asked of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analytics.derive.log_span import LogSpan
from analytics.page import cluster_figures as cluster
from analytics.page import partition_figures as partition
from analytics.page.figure import Answer, Figure, Tables, ask_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The answers by the name of the figure, and the time that they are about."""

    span: LogSpan
    answers: Mapping[str, Answer]


def ask_figures(tables: Tables) -> Figures:
    """Ask the tables for all figures.

    Args:
        tables: Every table of `tables.catalog` by its name, from one replay.
    """
    log = ask_all((cluster.LOG,), tables)
    span = log_span(log[cluster.LOG.name])
    return Figures(span=span, answers=log | ask_all(figures_of(span), tables))


def log_span(log: Answer) -> LogSpan:
    """Return the time that the log covers, from the answer to `cluster_figures.LOG`."""
    first, last, end = (log.values(name)[0] for name in ("first_time", "last_time", "end_time"))
    return LogSpan(first_ms=_integer(first), last_ms=_integer(last), end_ms=_integer(end))


def figures_of(span: LogSpan) -> tuple[Figure, ...]:
    """Return all figures but that of the log, which tells the span."""
    return (
        cluster.ASSUMPTIONS,
        cluster.SNAPSHOTS,
        cluster.PROBLEM_COUNT,
        cluster.PROBLEM_KINDS,
        cluster.TOPICS_NOW,
        cluster.FEATURES_NOW,
        cluster.BROKERS_NOW,
        cluster.LANE_COUNTS,
        cluster.broker_timeline(span),
        cluster.directory_timeline(span),
        cluster.FAILING_DIRECTORIES,
        cluster.DIRECTORY_FAILURES,
        cluster.CONTROLLER_EPOCHS,
        partition.outages_by_cause(span),
        partition.outages_over_time(span),
        partition.longest_outages(span),
        partition.LEADERSHIP_OVER_TIME,
        partition.LEADERSHIP_CAUSES,
        partition.CHURNING_PARTITIONS,
        partition.ISR_OVER_TIME,
        partition.ISR_CAUSES,
        partition.FLAPPING_REPLICAS,
        partition.BROKER_SKEW,
        partition.DIRECTORY_SKEW,
        partition.MOVES_BY_OUTCOME,
        partition.slowest_moves(span, "reassignment", "Slowest reassignments"),
        partition.slowest_moves(span, "directory", "Slowest moves between directories"),
        partition.ASSIGNMENT_LAG,
        partition.AVAILABILITY,
        partition.TOPIC_AVAILABILITY,
        partition.daily_availability(span),
    )


def _integer(value: object) -> int | None:
    assert value is None or isinstance(value, int)
    return value
