"""The report as text for a terminal: the figures of `page.report_figures`, a line each.

The page shows the same figures, so that a number is defined once, as a query on the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from analytics.page.figure import Answer
from analytics.page.report_figures import Figures
from jbodlab.durations import duration_text
from jbodlab.pages.values import Value, with_path

MAX_LINES = 20
"""Of each section; the tables have the rest."""
TOP_LINES = 5
"""Of what is ordered by how bad it is."""

_COUNTED_BY = {
    "risk_now": ("topics_now", "partitions"),
    "topics_now": ("topics_now", "partitions"),
    "availability": ("availability", "topics_ever"),
}
"""Figures of one row, and what they are about; without any they say nothing."""

Row = dict[str, Value]
Render = Callable[[Row], str]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TITLE_CHARS = 12


def text_of(figures: Figures) -> str:
    """Return the text of figures; those of the page have all that it needs."""
    answers = figures.answers
    courses = _courses(answers)

    def section(
        title: str, name: str, render: Render, empty: str = "", most: int = MAX_LINES
    ) -> list[str]:
        """Return the lines of a figure; a section without any is left out, or says `empty`."""
        counts, column = _COUNTED_BY.get(name, (None, ""))
        if counts is not None and not answers[counts].values(column)[0]:
            return []
        answer = answers[name]
        texts = [render(row) for row in _rows(answer, figures.paths)[:most]]
        if answer.total > most:
            texts.append(f"... and {answer.total - most} more, in the tables")
        return _titled(title, texts or [empty]) if texts or empty else []

    lines = [
        *_log_lines(_rows(answers["log"], figures.paths)[0]),
        *section("Incidents", "incidents", lambda row: _incident(row, courses), "none"),
        *section("Outages", "outages_by_cause", _outages),
        *section("Broker logs", "broker_logs", _broker_logs),
        *section("Risk", "risk_now", _risk),
        *section("", "what_if_directory", _what_if, most=TOP_LINES),
        *section("", "what_if_broker", _what_if, most=TOP_LINES),
        *section("Topics", "topics_now", _topics),
        *section("Assumed", "assumptions", _assumption),
        *section("Brokers", "brokers_now", _broker),
        *section("Leaders", "leadership_causes", _leadership),
        *section("Churn", "churning_partitions", _churn, most=TOP_LINES),
        *section("ISR", "flapping_replicas", _flaps, most=TOP_LINES),
        *section("Load", "broker_skew", _broker_skew, most=TOP_LINES),
        *section("", "directory_skew", _directory_skew, most=TOP_LINES),
        *section("Moves", "moves_by_outcome", _moves),
        *section("Slowest", "slowest_moves_reassignment", _move, most=TOP_LINES),
        *section("Assignments", "assignment_lag", _lag),
        *section("Availability", "availability", _all_availability),
        *section("", "topic_availability", _availability, most=TOP_LINES),
        *section("Recovery", "recovery", _recovery),
        *section("Problems", "problem_kinds", _problem, "none"),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def ranking_text(clusters: Mapping[str, Mapping[str, Value]]) -> str:
    """Return a line for each cluster, with its named figures; given the worst first."""
    texts = [f"{name}: {_ranked(facts)}" for name, facts in clusters.items()]
    if len(texts) > MAX_LINES:
        texts[MAX_LINES:] = [f"... and {len(texts) - MAX_LINES} more, on the start page"]
    return "\n".join(_titled("Clusters", texts)) + "\n"


def _ranked(facts: Mapping[str, Value]) -> str:
    text = (
        f"{_count(facts['open_incidents'], 'incident')} open, {facts['leaderless_now']} without "
        f"leader now, {facts['under_min_isr_now']} under min ISR, "
        f"{facts['under_replicated_now']} under-replicated; "
        f"{_count(facts['incidents'], 'incident')} in all"
    )
    if facts["topics_below_objective"]:
        below = _count(facts["topics_below_objective"], "topic")
        text += f", {below} below the objective"
    if facts["problems"]:
        text += f", {_count(facts['problems'], 'problem')} of the log"
    return text


def _log_lines(row: Row) -> list[str]:
    if not row["records"]:
        return _titled("Log", ["no records"])
    first = (
        f"{row['records']} records, offsets {row['first_offset']} to {row['last_offset']}, "
        f"{row['no_ops']} no-ops, {_count(row['epochs'], 'epoch')}"
    )
    return _titled("Log", [first, f"{_time(row['first_time'])} to {_time(row['last_time'])} UTC"])


def _risk(row: Row) -> str:
    text = (
        f"{_count(row['single_replica_now'], 'partition')} with one replica, "
        f"{row['at_min_isr_now']} at min ISR, {row['under_min_isr_now']} under min ISR, "
        f"{row['in_one_rack_now']} in one rack, {row['not_preferred_now']} not led by the first "
        "replica"
    )
    if row["replicas_without_directory_now"]:
        text += f", {_count(row['replicas_without_directory_now'], 'replica')} without directory"
    if row["empty_directories_now"]:
        text += f", {row['empty_directories_now']} empty log directories"
    return text


def _what_if(row: Row) -> str:
    place = f"directory {row['directory']} of broker" if "directory" in row else "broker"
    text = (
        f"if {place} {row['broker']} failed: {row['leaderless']} without leader, "
        f"{row['under_min_isr']} under min ISR, {_count(row['leaders_moved'], 'leader')} moved"
    )
    if not row["only_copies"]:
        return text
    return f"{text}, {_count(row['only_copies'], 'partition')} without any other copy"


def _topics(row: Row) -> str:
    return (
        f"{_count(row['topics'], 'topic')}, {_count(row['partitions'], 'partition')}; now "
        f"{row['leaderless_now']} without leader, {row['under_replicated_now']} under-replicated"
    )


def _broker(row: Row) -> str:
    return (
        f"broker {row['broker']} {row['state']}, log directories {row['online']} online "
        f"and {row['offline']} offline, {_count(row['replicas'], 'replica')}, "
        f"{_count(row['leaders'], 'leader')}, epoch {row['broker_epoch']}"
    )


def _courses(answers: Mapping[str, Answer]) -> dict[tuple[Value, ...], Row]:
    """Return how failures went on, by what failed and the offset of that."""
    found: dict[tuple[Value, ...], Row] = {}
    for what in ("directory", "broker"):
        for row in _rows(answers[f"{what}_failures"], {}):
            key = (what, row["broker"], row.get("directory"), row["detected_offset"])
            found[key] = row
    return found


def _incident(row: Row, courses: Mapping[tuple[Value, ...], Row]) -> str:
    name = f"{row['what']} {row['node']}"
    began = "" if row["began_by"] is None else f" {row['began_by']}"
    if row["what"] == "directory":
        name, began = f"directory {row['directory']} of broker {row['node']}", " went offline"
    until = "still open" if row["to_offset"] is None else f"{_ms(row['lasted_ms'])}"
    ended = "" if row["ended_by"] is None else f", ended by {row['ended_by']}"
    text = f"{_time(row['from_time'])} {name}{began}: {until}{ended}"
    if row["why"] is None:
        return text
    text += (
        f"; {_count(row['partitions_touched'], 'replica')} affected, "
        f"{_count(row['leaders_moved'], 'leader')} moved"
    )
    # Both figures begin with the open ones, then the latest: each incident here has its course.
    directory = row["directory_id"] if row["what"] == "directory" else None
    course = courses[row["what"], row["node"], directory, row["from_offset"]]
    return f"{text}{_course(course)}; {row['why']}"


def _course(row: Row) -> str:
    """Return the course of a failure; what never ended comes before any time."""
    text = ""
    if row.get("noticed") is not None:
        text += f", logged by its broker {_ms(row['noticed_before_ms'])} before: {row['noticed']}"
    if row["leaders_lost"]:
        text += f", {_count(row['leaders_lost'], 'leader')} lost"
    if row["leaders_still_lost"]:
        text += f", {row['leaders_still_lost']} of them until the end"
    if row["last_leader_in_same_batch"] == "yes":
        text += ", all new leaders in the same batch"
    elif row["time_to_last_leader_ms"] is not None:
        text += f", last new leader after {_ms(row['time_to_last_leader_ms'])}"
    if not row["partitions_touched"]:
        return text
    if row["time_to_full_isr_ms"] is None:
        return f"{text}, not all in sync yet"
    return f"{text}, all in sync after {_ms(row['time_to_full_isr_ms'])}"


def _outages(row: Row) -> str:
    partitions = _count(row["partitions"], "partition")
    happened = "had no leader" if row["kind"] == "leaderless" else "fell under min ISR"
    outages = "" if row["outages"] == row["partitions"] else f" {_count(row['outages'], 'time')}"
    longest = " for" if row["outages"] == 1 else ", the longest for"
    still = f", {row['open']} of them still open" if row["open"] else ""
    if row["outages"] == row["open"] == 1:
        still = ", still open"
    return (
        f"{_time(row['first_time'])} {_cause(row)}: {partitions} {happened}{outages}"
        f"{longest} {_ms(row['longest_ms'])}{still}"
    )


def _cause(row: Row) -> str:
    """Return a cause as a sentence."""
    if row["cause"] == "broker":
        return f"broker {row['broker']} failed"
    if row["cause"] == "directory":
        return f"directory {row['directory']} of broker {row['broker']} failed"
    return f"cause {row['cause']}{_place(row)}"


def _broker_logs(row: Row) -> str:
    text = f"{_count(row['lines'], 'line')} about log directories"
    if not row["without_failure"]:
        return text
    return (
        f"{text}, {row['without_failure']} without a failure in the metadata log "
        "(is the time zone right? see --log-zone)"
    )


def _leadership(row: Row) -> str:
    none = f", {row['to_none']} to no leader" if row["to_none"] else ""
    return f"{_count(row['changes'], 'change')}, cause {row['cause']}{none}"


def _churn(row: Row) -> str:
    return f"{_partition(row)} changed its leader {_count(row['changes'], 'time')}"


def _flaps(row: Row) -> str:
    return (
        f"replica {row['broker']} of {_partition(row)} left the ISR "
        f"{_count(row['shrinks'], 'time')}, for {_ms(row['out_ms_total'])} in total, the longest "
        f"for {_ms(row['out_ms_max'])}"
    )


def _broker_skew(row: Row) -> str:
    return f"broker {row['broker']}: {_share(row)}"


def _directory_skew(row: Row) -> str:
    return f"directory {row['directory']} of broker {row['broker']}: {_share(row)}"


def _share(row: Row) -> str:
    return ", ".join(
        f"{_count(row[f'{noun}s'], noun)}{_deviation(row[name])}"
        for noun, name in (("replica", "deviation"), ("leader", "leader_deviation"))
    )


def _deviation(value: Value) -> str:
    return "" if value is None else f" ({100 * float(value):+.1f}% from the mean)"


def _moves(row: Row) -> str:
    longest = "" if row["longest_ms"] is None else f", longest {_ms(row['longest_ms'])}"
    kind = "move between directories" if row["kind"] == "directory" else row["kind"]
    plural = "moves between directories" if row["kind"] == "directory" else f"{kind}s"
    moves = f"{row['moves']} {kind if row['moves'] == 1 else plural}"
    return f"{moves} {row['outcome']}{longest}"


def _move(row: Row) -> str:
    return (
        f"{_partition(row)} from broker {_or_none(row['from_broker'])} to "
        f"{_or_none(row['to_broker'])}: {row['outcome']}, {_ms(row['lasted_ms'])} from "
        f"{_time(row['begin_time'])} on"
    )


def _lag(row: Row) -> str:
    never = f", {row['unassigned']} never assigned" if row["unassigned"] else ""
    return (
        f"broker {row['broker']}: {_count(row['replicas'], 'replica')} created without a "
        f"directory, assigned after {_ms(row['mean_ms'])} on average, "
        f"{_ms(row['slowest_ms'])} at most{never}"
    )


def _all_availability(row: Row) -> str:
    return f"{_count(row['topics_ever'], 'topic')}: {_times_short(row)}"


def _availability(row: Row) -> str:
    return f"{row['topic']}: {_times_short(row)}"


def _times_short(row: Row) -> str:
    text = (
        f"{_percent(row['availability'])} for reading, {_percent(row['write_availability'])} for "
        f"writing, {_ms(row['leaderless_ms'])} without leader, "
        f"{_ms(row['under_min_isr_ms'])} under min ISR"
    )
    if row["objective"] is None:
        return text
    if "misses_objective" in row:
        missed = row["misses_objective"]
        return (
            text if missed is None else f"{text}, below {_percent(row['objective'])} for {missed}"
        )
    below = _count(row["topics_below_objective"], "topic")
    return (
        f"{text}; objective {_percent(row['objective'])}: {_percent(row['read_budget_used'])} of "
        f"the error budget used by reads, {_percent(row['write_budget_used'])} by writes, "
        f"{below} below the objective"
    )


def _percent(share: Value) -> str:
    return "unknown" if share is None else f"{100 * float(share):.4f}%"


def _recovery(row: Row) -> str:
    never = f", {row['never']} still open" if row["never"] else ""
    if not row["times"]:
        return f"{row['what']}: {row['never']} still open"
    if row["p50_ms"] is None:
        return f"{row['what']}: {_count(row['times'], 'time')}, longest {_ms(row['max_ms'])}{never}"
    return (
        f"{row['what']}: {_count(row['times'], 'time')}, half within {_ms(row['p50_ms'])}, 95% "
        f"within {_ms(row['p95_ms'])}, 99% within {_ms(row['p99_ms'])}{never}"
    )


def _assumption(row: Row) -> str:
    # Also with none at the end: earlier, and for topics that are gone, it may have counted.
    return (
        f"min.insync.replicas {row['min_insync_replicas']} ({row['min_insync_replicas_from']}) for "
        f"topics without a value in the log, at its end {_count(row['topics'], 'topic')}"
    )


def _problem(row: Row) -> str:
    return f"{row['problems']} {row['kind']}: {row['message']}"


def _rows(answer: Answer, paths: Mapping[str, str]) -> list[Row]:
    names = [column.name for column in answer.figure.columns]
    found = [dict(zip(names, row, strict=True)) for row in answer.rows]
    for row in found:
        if "directory" in row:
            row["directory_id"] = row["directory"]
        row |= {
            column.name: with_path(row[column.name], column.unit, paths)
            for column in answer.figure.columns
        }
    return found


def _titled(title: str, texts: Sequence[str]) -> list[str]:
    heads = [title, *[""] * (len(texts) - 1)]
    return [f"{head:<{_TITLE_CHARS}} {text}" for head, text in zip(heads, texts, strict=True)]


def _place(row: Row) -> str:
    place = "" if row["broker"] is None else f" on broker {row['broker']}"
    return place if row["directory"] is None else f"{place} {row['directory']}"


def _partition(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _or_none(value: Value) -> str:
    return "none" if value is None else str(value)


def _count(number: Value, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _ms(value: Value) -> str:
    return "unknown" if value is None else duration_text(float(value) / 1000)


def _time(value: Value) -> str:
    if value is None:
        return "unknown"
    assert isinstance(value, int)
    moment = _EPOCH + timedelta(milliseconds=value)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"
