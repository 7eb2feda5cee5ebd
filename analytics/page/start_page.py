"""The start page of several clusters: which of them needs somebody first, and what happened when.

It is made of a few figures of each cluster's report, which a run leaves for the next, so that a
cluster that has not changed is on the page without being read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analytics.page.columns import columns
from analytics.page.report_figures import Figures
from analytics.page.report_page import GENERATOR, moment
from jbodlab.pages.page import Block, Section, html_page
from jbodlab.pages.plots import Intervals, Ranking
from jbodlab.pages.values import Value

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

_FACTS = (
    "open_incidents leaderless_now under_min_isr_now under_replicated_now incidents "
    "longest_leaderless_ms availability write_availability topics_below_objective "
    "leaderless_by_one_directory leaderless_by_one_broker single_replica_now topics partitions "
    "records problems"
)
_INCIDENT = (
    "what node directory from_time to_time lasted_ms began_by ended_by leaderless "
    "longest_leaderless_ms under_min_isr still_short"
)

CLUSTERS = columns(f"cluster {_FACTS} last_time".split(), {"last_time": "Last record"})
INCIDENTS = columns(f"cluster {_INCIDENT}".split(), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummary:
    """A cluster on the start page; every value can be JSON.

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
        """Values that clusters are put in order by: less is worse."""
        values = (self.facts.get(name) for name in RANKED_BY)
        return tuple(-float(value) if value is not None else 0.0 for value in values)


def summary_of(figures: Figures) -> ClusterSummary:
    """Return what the start page shows of the cluster of a report."""
    incidents = figures.answers["incidents"]
    values = [incidents.values(name)[:INCIDENTS_EACH] for name in _INCIDENT.split()]
    span = figures.span
    return ClusterSummary(
        first_ms=span.first_ms,
        last_ms=span.last_ms,
        end_ms=span.end_ms,
        facts=figures.named,
        incidents=list(zip(*values, strict=True)),
    )


def ranked(clusters: Mapping[str, ClusterSummary]) -> list[str]:
    """Return the names of clusters, the worst first."""
    return sorted(clusters, key=lambda name: (clusters[name].rank, name))


def start_page(clusters: Mapping[str, ClusterSummary], pages: Mapping[str, str]) -> str:
    """Return the page of several clusters as HTML."""
    names = ranked(clusters)
    first = _least(one.first_ms for one in clusters.values())
    last = _most(one.last_ms for one in clusters.values())
    end = _most(one.end_ms for one in clusters.values())
    shown = ", ".join(names[:CLUSTERS_PLOTTED])
    return html_page(
        [
            Section(name="clusters", title="Clusters", blocks=[_clusters(clusters, names, pages)]),
            Section(
                name="incidents",
                title="Incidents",
                blocks=[_incidents(clusters, names, pages, moment(end))],
            ),
        ],
        title=f"{len(clusters)} clusters",
        source=shown + (", ..." if len(names) > CLUSTERS_PLOTTED else ""),
        first=moment(first),
        last=moment(last),
        generator=GENERATOR,
    )


def _clusters(
    clusters: Mapping[str, ClusterSummary], names: Sequence[str], pages: Mapping[str, str]
) -> Block:
    facts = {name: clusters[name].facts for name in names}
    return Block(
        name="clusters",
        title="Clusters, the worst first",
        columns=CLUSTERS,
        rows=[
            (name, *(facts[name].get(fact) for fact in _FACTS.split()), clusters[name].last_ms)
            for name in names
        ],
        note="Ordered by open incidents; partitions without leader, under min ISR and "
        "under-replicated now; topics below the objective; time without leader and under min ISR; "
        f"problems of the log. The plot shows the first {CLUSTERS_PLOTTED} clusters.",
        plots=(
            Ranking(
                title="Now",
                label=("cluster",),
                values=("open_incidents", "leaderless_now", "under_min_isr_now"),
                most=CLUSTERS_PLOTTED,
            ),
        ),
        is_open=True,
        links=pages,
    )


def _incidents(
    clusters: Mapping[str, ClusterSummary], names: Sequence[str], pages: Mapping[str, str], end: str
) -> Block:
    return Block(
        name="incidents",
        title="Incidents, by cluster",
        columns=INCIDENTS,
        rows=[
            (name, *row)
            for name in names[:CLUSTERS_WITH_INCIDENTS]
            for row in clusters[name].incidents
        ],
        note=f"Open incidents first, then the latest: at most {INCIDENTS_EACH} of each of the "
        f"first {CLUSTERS_WITH_INCIDENTS} clusters.",
        plots=(Intervals(lane=("cluster",), colour="what"),),
        links=pages,
        end=end,
    )


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
