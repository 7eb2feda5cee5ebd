"""The start page of several clusters: which of them needs somebody first, and what happened when.

It is made of a few figures of each cluster's report, which a run leaves for the next, so that a
cluster that has not changed stands beside the others without being read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analytics.derive.log_span import LogSpan
from analytics.page.figure import Answer, Figure, Line, Unit, Value, figure_columns
from analytics.page.markup import block_html
from analytics.page.plots import Intervals, Ranking
from analytics.page.report_figures import Figures
from analytics.page.report_page import html_page, moment
from analytics.page.sections import Block
from analytics.page.values import escape

RANKED_BY = (
    "open_incidents",
    "leaderless_now",
    "under_min_isr_now",
    "under_replicated_now",
    "topics_below_objective",
    "leaderless_ms",
    "under_min_isr_ms",
    "problems",
)
"""Named figures by which clusters are put in order, the worst first; equal ones by their names."""

CLUSTERS_PLOTTED = 20
CLUSTERS_WITH_INCIDENTS = 40
INCIDENTS_EACH = 20

_FACTS: tuple[Line, ...] = (
    ("open_incidents", "Incidents open", Unit.NUMBER),
    ("leaderless_now", "Without leader now", Unit.NUMBER),
    ("under_min_isr_now", "Under min ISR now", Unit.NUMBER),
    ("under_replicated_now", "Under-replicated now", Unit.NUMBER),
    ("incidents", "Incidents ever", Unit.NUMBER),
    ("longest_leaderless_ms", "Longest without leader", Unit.DURATION),
    ("availability", "Available for reading", Unit.SHARE),
    ("write_availability", "For writing", Unit.SHARE),
    ("topics_below_objective", "Topics below the objective", Unit.NUMBER),
    ("leaderless_by_one_directory", "Worst directory leaves leaderless", Unit.NUMBER),
    ("leaderless_by_one_broker", "Worst broker leaves leaderless", Unit.NUMBER),
    ("single_replica_now", "Partitions with one replica", Unit.NUMBER),
    ("topics", "Topics", Unit.NUMBER),
    ("partitions", "Partitions", Unit.NUMBER),
    ("records", "Records", Unit.NUMBER),
    ("problems", "Problems of the log", Unit.NUMBER),
)
_INCIDENT: tuple[Line, ...] = (
    ("what", "What", Unit.TEXT),
    ("node", "Node", Unit.LABEL),
    ("directory", "Directory", Unit.ID),
    ("from_time", "From", Unit.TIME),
    ("to_time", "To", Unit.TIME),
    ("lasted_ms", "Lasted", Unit.DURATION),
    ("began_by", "Cause", Unit.TEXT),
    ("ended_by", "Ended by", Unit.TEXT),
    ("leaderless", "Without leader", Unit.NUMBER),
    ("longest_leaderless_ms", "Longest without leader", Unit.DURATION),
    ("under_min_isr", "Under min ISR", Unit.NUMBER),
    ("still_short", "Either to the end", Unit.NUMBER),
)
_CLUSTER: Line = ("cluster", "Cluster", Unit.TEXT)

CLUSTERS = Figure(
    name="clusters",
    title="Clusters, the worst first",
    sql="",
    columns=figure_columns([_CLUSTER, *_FACTS, ("last_time", "Last record", Unit.TIME)]),
)
INCIDENTS = Figure(
    name="incidents",
    title="Incidents, by cluster",
    sql="",
    columns=figure_columns([_CLUSTER, *_INCIDENT]),
)

_BLOCKS = (
    Block(
        figure=CLUSTERS.name,
        note="In the order of incidents that are open, partitions without leader, under min ISR "
        "and under-replicated now, topics below the objective, time without leader and under min "
        f"ISR, problems of the log. The plot has the first {CLUSTERS_PLOTTED}.",
        plots=(
            Ranking(
                title="Now",
                label=("cluster",),
                values=("open_incidents", "leaderless_now", "under_min_isr_now"),
                most=CLUSTERS_PLOTTED,
            ),
        ),
        open=True,
    ),
    Block(
        figure=INCIDENTS.name,
        note=f"Of the first {CLUSTERS_WITH_INCIDENTS} clusters, {INCIDENTS_EACH} each: open ones, "
        "then the latest.",
        plots=(
            Intervals(
                title="Incidents",
                lane=("cluster",),
                start="from_time",
                end="to_time",
                colour="what",
            ),
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummary:
    """What the start page shows of a cluster; all of it can be JSON.

    Attributes:
        first_ms: Time of the first record, milliseconds since 1970; None without any.
        last_ms: Of the last.
        end_ms: Until when what has not ended lasts.
        facts: Named figures.
        incidents: Rows of its incidents.
    """

    first_ms: int | None
    last_ms: int | None
    end_ms: int | None
    facts: Mapping[str, Value]
    incidents: Sequence[Sequence[Value]]

    @property
    def rank(self) -> tuple[float, ...]:
        """What clusters are put in order by: less is worse."""
        values = (self.facts.get(name) for name in RANKED_BY)
        return tuple(-float(value) if value is not None else 0.0 for value in values)


def summary_of(figures: Figures) -> ClusterSummary:
    """Return what the start page shows of the cluster of a report."""
    incidents = figures.answers["incidents"]
    columns = [incidents.values(name)[:INCIDENTS_EACH] for name, _, _ in _INCIDENT]
    span = figures.span
    return ClusterSummary(
        first_ms=span.first_ms,
        last_ms=span.last_ms,
        end_ms=span.end_ms,
        facts=figures.named,
        incidents=list(zip(*columns, strict=True)),
    )


def ranked(clusters: Mapping[str, ClusterSummary]) -> list[str]:
    """Return the names of clusters, the worst first."""
    return sorted(clusters, key=lambda name: (clusters[name].rank, name))


def start_page(clusters: Mapping[str, ClusterSummary], pages: Mapping[str, str]) -> str:
    """Return the page of several clusters as HTML.

    Args:
        clusters: What is shown of each, by its name.
        pages: Where the page of each is, as a link.
    """
    names = ranked(clusters)
    first = _least(one.first_ms for one in clusters.values())
    last = _most(one.last_ms for one in clusters.values())
    end = _most(one.end_ms for one in clusters.values())
    answers = {
        one.figure.name: one for one in (_clusters(clusters, names), _incidents(clusters, names))
    }
    bucket_ms = LogSpan(first_ms=first, last_ms=last, end_ms=end).bucket_ms
    sections = [
        f'<section id="{name}">\n<h2>{escape(title)}</h2>\n'
        + block_html(block, answers[block.figure], bucket_ms, moment(end), {}, links=pages)
        + "\n</section>"
        for block, (name, title) in zip(
            _BLOCKS, (("clusters", "Clusters"), ("incidents", "Incidents")), strict=True
        )
        if answers[block.figure].rows
    ]
    return html_page(
        title=f"{len(clusters)} clusters",
        source=", ".join(names[:CLUSTERS_PLOTTED])
        + (", ..." if len(names) > CLUSTERS_PLOTTED else ""),
        first=moment(first),
        last=moment(last),
        links='<a href="#clusters">Clusters</a>\n'
        + ('<a href="#incidents">Incidents</a>\n' if answers[INCIDENTS.name].rows else ""),
        sections="\n".join(sections),
    )


def _clusters(clusters: Mapping[str, ClusterSummary], names: Sequence[str]) -> Answer:
    rows = tuple(
        (
            name,
            *(clusters[name].facts.get(fact) for fact, _, _ in _FACTS),
            clusters[name].last_ms,
        )
        for name in names
    )
    return Answer(figure=CLUSTERS, rows=rows, total=len(rows))


def _incidents(clusters: Mapping[str, ClusterSummary], names: Sequence[str]) -> Answer:
    rows = tuple(
        (name, *row) for name in names[:CLUSTERS_WITH_INCIDENTS] for row in clusters[name].incidents
    )
    return Answer(figure=INCIDENTS, rows=rows, total=len(rows))


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
