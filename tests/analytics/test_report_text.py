"""Lines of the report as text, from answers made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from analytics.page.conditions import known_figures
from analytics.page.figure import Answer
from analytics.page.report_figures import Figures
from analytics.page.report_text import text_of
from analytics.page.sections import FACTS, FIGURES
from analytics.page.start_page import CLUSTERS, RANKED_BY
from jbodlab.pages.values import Value
from tests.analytics.shared import NO_TIME

DIRECTORY = "b4d9ExdORgaQq38CyHwWTA"
INCIDENT = {
    "what": "directory",
    "node": 1,
    "directory": DIRECTORY,
    "from_time": 0,
    "from_offset": 7,
    "partitions_touched": 3,
    "leaders_moved": 2,
    "why": "jbodlab why ...",
}
FAILURE = {"broker": 1, "directory": DIRECTORY, "detected_offset": 7, "partitions_touched": 3}


def text(
    *,
    incidents: list[Mapping[str, Value]],
    end: str = "Problems",
    paths: Mapping[str, str] | None = None,
    **failures: list[Mapping[str, Value]],
) -> list[str]:
    """Return the lines from incidents to a later section, of a report of nothing else."""
    facts = {figure.name for figure in FACTS}
    given = {"incidents": incidents, **failures}
    answers = {}
    for figure in FIGURES:
        rows: list[Mapping[str, Value]] = given.get(figure.name, [])
        values = tuple(tuple(row.get(one.name) for one in figure.columns) for row in rows)
        if figure.name in facts:
            values = ((0,) * len(figure.columns),)
        answers[figure.name] = Answer(figure=figure, rows=values, total=len(values))
    lines = text_of(Figures(span=NO_TIME, answers=answers, paths=paths or {})).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("Incidents"))
    stop = next(at for at, line in enumerate(lines) if line.startswith(end))
    return [line[13:] for line in lines[start:stop]]


def test_an_incident_is_one_line_with_how_it_was_overcome() -> None:
    closed = {**INCIDENT, "to_offset": 9, "lasted_ms": 60, "ended_by": "online"}
    course = {
        **FAILURE,
        "leaders_lost": 2,
        "leaders_still_lost": 1,
        "time_to_last_leader_ms": 5,
        "time_to_full_isr_ms": 40,
        "noticed": "I/O error",
        "noticed_before_ms": 3,
    }

    assert text(incidents=[closed], directory_failures=[course]) == [
        f"1970-01-01 00:00:00.000 directory {DIRECTORY} of broker 1 went offline: 60 ms, ended by "
        "online; 3 replicas affected, 2 leaders moved, logged by its broker 3 ms before: I/O "
        "error, 2 leaders lost, 1 of them until the end, last new leader after 5 ms, all in "
        "sync after 40 ms; jbodlab why ..."
    ]


def test_an_incident_of_a_directory_with_a_known_path_finds_its_course() -> None:
    open_one = {**INCIDENT, "to_offset": None}

    (line,) = text(
        incidents=[open_one], directory_failures=[FAILURE], paths={DIRECTORY: "/disks/1"}
    )

    assert line == (
        f"1970-01-01 00:00:00.000 directory /disks/1 ({DIRECTORY}) of broker 1 went offline: still "
        "open; 3 replicas affected, 2 leaders moved, not all in sync yet; jbodlab why ..."
    )


def test_failures_of_a_broker_and_of_its_directory_at_one_offset_are_told_apart() -> None:
    broker = {
        **INCIDENT,
        "what": "broker",
        "directory": None,
        "began_by": "fenced",
        "partitions_touched": 1,
    }
    of_broker = {"broker": 1, "detected_offset": 7, "partitions_touched": 1, "leaders_lost": 1}

    lines = text(
        incidents=[broker, INCIDENT], broker_failures=[of_broker], directory_failures=[FAILURE]
    )

    assert ["1 leader lost" in line for line in lines] == [True, False]
    assert "broker 1 fenced: still open; 1 replica affected," in lines[0]


def test_an_outage_names_its_cause_as_a_sentence() -> None:
    row = {"kind": "leaderless", "first_time": 0, "partitions": 3, "outages": 3, "open": 0}
    of_broker = {**row, "cause": "broker", "broker": 3, "longest_ms": 9476}
    unknown = {**row, "cause": "unknown", "outages": 5, "open": 2, "longest_ms": 200_000}

    lines = text(incidents=[], outages_by_cause=[of_broker, unknown])

    assert lines[1:] == [
        "1970-01-01 00:00:00.000 broker 3 failed: 3 partitions had no leader, the longest for "
        "9.5 s",
        "1970-01-01 00:00:00.000 cause unknown: 3 partitions had no leader 5 times, the longest "
        "for 3 min 20 s, 2 of them still open",
    ]


def test_a_few_recoveries_have_no_percentiles() -> None:
    few = {"what": "full ISR", "times": 9, "never": 0, "max_ms": 9476}
    many = {**few, "times": 10, "p50_ms": 100, "p95_ms": 900, "p99_ms": 900}

    lines = text(end="Problems", incidents=[], recovery=[few, many])

    assert lines[-2:] == [
        "full ISR: 9 times, longest 9.5 s",
        "full ISR: 10 times, half within 100 ms, 95% within 900 ms, 99% within 900 ms",
    ]


def test_lines_of_brokers_logs_without_a_failure_are_counted() -> None:
    lines = text(incidents=[], broker_logs=[{"lines": 12, "without_failure": 2}])

    assert lines[-1] == (
        "12 lines about log directories, 2 without a failure in the metadata log (is the time "
        "zone right? see --log-zone)"
    )


def test_a_change_of_the_controller_has_no_course() -> None:
    change = {"what": "controller", "node": 2, "from_time": 0, "lasted_ms": 9, "to_offset": 4}

    assert text(incidents=[change]) == ["1970-01-01 00:00:00.000 controller 2: 9 ms"]


def test_the_start_page_names_figures_that_every_report_has() -> None:
    shown = {column.name for column in CLUSTERS} - {"cluster", "last_time"}

    assert shown | set(RANKED_BY) <= known_figures().keys()
