"""The order of the report: which figures each section has."""

from __future__ import annotations

from dataclasses import dataclass

from analytics.page import availability_figures as availability
from analytics.page import change_figures as change
from analytics.page import gauge_figures as gauge
from analytics.page import incident_figures as incident
from analytics.page import log_figures as log
from analytics.page import outage_figures as outage
from analytics.page import placement_figures as placement
from analytics.page import risk_figures as risk
from analytics.page import timeline_figures as timeline
from analytics.page.figure import Figure
from analytics.page.log_span import LogSpan

NO_TIME = LogSpan(first_ms=None, last_ms=None, end_ms=None)


@dataclass(frozen=True)
class FigureSection:
    """A heading, figures of one row each, and figures below them."""

    name: str
    title: str
    facts: tuple[Figure, ...] = ()
    figures: tuple[Figure, ...] = ()


def sections_of(span: LogSpan, objective: float | None = None) -> tuple[FigureSection, ...]:
    """Return the sections of the report.

    Args:
        span: The time that the log covers.
        objective: Share of time, 0 to 1, in which partitions should be available; None without.
    """
    return (
        FigureSection(
            "incidents",
            "Incidents",
            facts=(incident.INCIDENT_COUNTS,),
            figures=(incident.incidents(span),),
        ),
        FigureSection(
            "risk",
            "Risk now",
            facts=(risk.RISK_NOW,),
            figures=(
                risk.WHAT_IF_DIRECTORY,
                risk.WHAT_IF_BROKER,
                risk.TOPICS_AT_RISK,
                risk.EMPTY_DIRECTORIES,
            ),
        ),
        FigureSection(
            "log",
            "Log and cluster",
            facts=(log.LOG, log.SNAPSHOTS, log.TOPICS_NOW, log.LANE_COUNTS, log.PROBLEM_COUNT),
            figures=(
                log.ASSUMPTIONS,
                log.PROBLEM_KINDS,
                log.UNKNOWN_RECORDS,
                log.BROKERS_NOW,
                log.FEATURES_NOW,
            ),
        ),
        FigureSection(
            "gauges",
            "Over time",
            figures=(
                gauge.MARKS_OVER_TIME,
                gauge.GAUGES,
                gauge.BROKER_GAUGES,
                gauge.DIRECTORY_GAUGES,
                gauge.RECORD_RATES,
            ),
        ),
        FigureSection(
            "timeline",
            "Brokers and directories",
            figures=(timeline.broker_timeline(span), timeline.directory_timeline(span)),
        ),
        FigureSection(
            "failures",
            "Failures",
            figures=(
                incident.DIRECTORY_FAILURES,
                incident.BROKER_LOGS,
                incident.FAILING_DIRECTORIES,
                incident.BROKER_FAILURES,
            ),
        ),
        FigureSection(
            "outages",
            "Outages",
            facts=(outage.outage_counts(span),),
            figures=(
                outage.outages_by_cause(span),
                outage.outages_over_time(span),
                outage.longest_outages(span),
            ),
        ),
        FigureSection(
            "leadership",
            "Leadership churn",
            figures=(
                change.LEADERSHIP_CAUSES,
                change.LEADERSHIP_OVER_TIME,
                change.CHURNING_PARTITIONS,
            ),
        ),
        FigureSection(
            "isr",
            "ISR flapping",
            figures=(change.ISR_CAUSES, change.ISR_OVER_TIME, change.FLAPPING_REPLICAS),
        ),
        FigureSection(
            "placement", "Placement skew", figures=(placement.BROKER_SKEW, placement.DIRECTORY_SKEW)
        ),
        FigureSection(
            "moves",
            "Moves and reassignments",
            figures=(
                placement.MOVES_BY_OUTCOME,
                placement.slowest_moves(span, "reassignment", "Slowest reassignments"),
                placement.slowest_moves(span, "directory", "Slowest moves between directories"),
                placement.ASSIGNMENT_LAG,
            ),
        ),
        FigureSection(
            "availability",
            "Availability",
            facts=(availability.availability(objective),),
            figures=(
                availability.topic_availability(objective),
                outage.RECOVERY,
                availability.daily_availability(span),
            ),
        ),
        FigureSection("rights", "Rights", figures=(log.RIGHTS_NOW, log.USERS_NOW)),
        FigureSection(
            "controllers",
            "Controllers",
            figures=(log.CONTROLLER_EPOCHS, incident.CONTROLLER_CHANGES),
        ),
    )


def figures_of(span: LogSpan, objective: float | None = None) -> tuple[Figure, ...]:
    """Return all figures, in the order of the report."""
    return tuple(
        figure
        for section in sections_of(span, objective)
        for figure in (*section.facts, *section.figures)
    )


FACTS = tuple(figure for section in sections_of(NO_TIME) for figure in section.facts)
"""Figures of one row, whose columns are the named figures that conditions ask for."""
