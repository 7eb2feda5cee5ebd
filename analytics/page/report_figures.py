"""Every figure of the report, asked of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from analytics.derive.bucket_rows import BucketRows
from analytics.derive.log_end import log_span
from analytics.derive.log_span import LogSpan
from analytics.page import availability_figures as availability
from analytics.page import change_figures as change
from analytics.page import gauge_figures as gauge
from analytics.page import incident_figures as incident
from analytics.page import log_figures
from analytics.page import outage_figures as outage
from analytics.page import placement_figures as placement
from analytics.page import risk_figures as risk
from analytics.page import timeline_figures as timeline
from analytics.page.conditions import known_figures, named_values
from analytics.page.figure import Answer, Figure, Unit, Value, ask_all
from analytics.page.sections import SECTIONS
from analytics.store.questions import Readable


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The answers by the name of the figure, and the time that they are about."""

    span: LogSpan
    answers: Mapping[str, Answer]
    paths: Mapping[str, str] = field(default_factory=dict)
    """Where log directories lie, by their ids, as far as that was told."""

    @property
    def named(self) -> dict[str, Value]:
        """The named figures, which conditions ask for: the columns of figures of one row."""
        return named_values([self.answers[name] for name in _FACTS])


_FACTS = tuple(name for section in SECTIONS for name in section.facts)


def names_of_figures() -> dict[str, Unit]:
    """Return the names that conditions may ask for, and what those are measured in."""
    no_time = LogSpan(first_ms=None, last_ms=None, end_ms=None)
    figures = {figure.name: figure for figure in figures_of(no_time)}
    return known_figures([figures[name] for name in _FACTS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a reader wants of the report besides what the tables hold.

    Attributes:
        objective: Share of time, 0 to 1, in which partitions should be available; None if nothing
            is asked of them.
        paths: Where log directories lie, by their ids.
    """

    objective: float | None = None
    paths: Mapping[str, str] = field(default_factory=dict)


class ReportTables(BucketRows, Readable, Protocol):
    """What figures are asked of: every table of `tables.catalog`, from one replay."""


def ask_figures(tables: ReportTables, asked: Asked | None = None) -> Figures:
    """Ask the tables for all figures.

    Args:
        tables: The tables.
        asked: What is wanted besides.
    """
    asked = asked or Asked()
    span = log_span(tables)
    answers = ask_all(figures_of(span, asked.objective), tables)
    return Figures(span=span, answers=answers, paths=asked.paths)


def figures_of(span: LogSpan, objective: float | None = None) -> tuple[Figure, ...]:
    """Return all figures.

    Args:
        span: The time that the log covers.
        objective: Availability that is asked for, if any is.
    """
    return (
        log_figures.LOG,
        incident.INCIDENT_COUNTS,
        incident.incidents(span),
        risk.RISK_NOW,
        risk.WHAT_IF_DIRECTORY,
        risk.WHAT_IF_BROKER,
        risk.TOPICS_AT_RISK,
        risk.EMPTY_DIRECTORIES,
        gauge.MARKS_OVER_TIME,
        gauge.GAUGES,
        gauge.BROKER_GAUGES,
        gauge.DIRECTORY_GAUGES,
        gauge.RECORD_RATES,
        log_figures.ASSUMPTIONS,
        log_figures.SNAPSHOTS,
        log_figures.PROBLEM_COUNT,
        log_figures.PROBLEM_KINDS,
        log_figures.UNKNOWN_RECORDS,
        log_figures.TOPICS_NOW,
        log_figures.FEATURES_NOW,
        log_figures.BROKERS_NOW,
        log_figures.LANE_COUNTS,
        timeline.broker_timeline(span),
        timeline.directory_timeline(span),
        incident.FAILING_DIRECTORIES,
        incident.DIRECTORY_FAILURES,
        incident.BROKER_LOGS,
        incident.BROKER_FAILURES,
        incident.CONTROLLER_CHANGES,
        log_figures.CONTROLLER_EPOCHS,
        outage.outage_counts(span),
        outage.outages_by_cause(span),
        outage.outages_over_time(span),
        outage.longest_outages(span),
        change.LEADERSHIP_OVER_TIME,
        change.LEADERSHIP_CAUSES,
        change.CHURNING_PARTITIONS,
        change.ISR_OVER_TIME,
        change.ISR_CAUSES,
        change.FLAPPING_REPLICAS,
        placement.BROKER_SKEW,
        placement.DIRECTORY_SKEW,
        placement.MOVES_BY_OUTCOME,
        placement.slowest_moves(span, "reassignment", "Slowest reassignments"),
        placement.slowest_moves(span, "directory", "Slowest moves between directories"),
        placement.ASSIGNMENT_LAG,
        outage.RECOVERY,
        availability.availability(objective),
        availability.topic_availability(objective),
        availability.daily_availability(span),
    )
