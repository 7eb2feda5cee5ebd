"""The order of the page: which figures stand in which section, and what is drawn of them."""

from __future__ import annotations

from dataclasses import dataclass

from analytics.page.plots import Bars, Intervals, Plot, Ranking, Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One figure: its table, and above it its plots."""

    figure: str
    plots: tuple[Plot, ...] = ()
    note: str = ""
    open: bool = False
    """Whether the table is unfolded from the begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, a line about what is seen, and figures."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    facts: tuple[str, ...] = ()
    """Figures of one row, which stand above the others."""


SECTIONS = (
    Section(
        name="incidents",
        title="Incidents",
        facts=("incident_counts",),
        blocks=(
            Block(
                figure="incidents",
                note="One line for each failure of a directory or a broker, and for each change of "
                "the controller; the command in the last column shows the records behind it.",
                plots=(
                    Intervals(
                        title="Incidents",
                        lane=("what", "node", "directory"),
                        start="from_time",
                        end="to_time",
                        colour="what",
                    ),
                ),
                open=True,
            ),
        ),
    ),
    Section(
        name="risk",
        title="Risk now",
        facts=("risk_now",),
        blocks=(
            *(
                Block(
                    figure=f"what_if_{scope}",
                    note=f"The effects of a failure of each {scope}, as in jbodlab what-if.",
                    plots=(
                        Ranking(
                            title=f"If one {scope} failed now",
                            label=label,
                            values=("leaderless", "under_min_isr", "leaders_moved"),
                        ),
                    ),
                )
                for scope, label in (
                    ("directory", ("broker", "directory")),
                    ("broker", ("broker",)),
                )
            ),
            Block(figure="topics_at_risk", open=True),
            Block(figure="empty_directories"),
        ),
    ),
    Section(
        name="log",
        title="Log and cluster",
        facts=("log", "snapshots", "topics_now", "lane_counts", "problem_count"),
        blocks=(
            Block(figure="assumptions", open=True),
            Block(figure="problem_kinds", open=True),
            Block(figure="unknown_records", open=True),
            Block(figure="brokers_now", open=True),
            Block(figure="features_now"),
        ),
    ),
    Section(
        name="gauges",
        title="Over time",
        blocks=(
            Block(
                figure="marks",
                note="Shown as small marks on every time axis; changes in one batch share a mark.",
            ),
            Block(
                figure="gauges",
                note="The highest number in each stretch of time; the log has at most two hundred "
                "stretches.",
                plots=(
                    Steps(
                        title="Partitions without leader, under min ISR, under-replicated, not led "
                        "by the first replica; offline replicas",
                        time="bucket",
                        series=("what",),
                        value="ever",
                        where={
                            "what": (
                                *("leaderless", "under_min_isr", "under_replicated"),
                                *("not_preferred", "offline_replicas"),
                            )
                        },
                    ),
                    Steps(
                        title="Directories offline, brokers that do not serve",
                        time="bucket",
                        series=("what",),
                        value="ever",
                        where={"what": ("offline_directories", "failed_brokers")},
                    ),
                ),
            ),
            *(
                Block(
                    figure=figure,
                    note="The ones with the most changes of leaders.",
                    plots=tuple(
                        Steps(
                            title=f"{what.capitalize()} of {called}",
                            time="bucket",
                            series=series,
                            value="at_end",
                            where={"what": (what,)},
                        )
                        for what in ("leaders", "replicas")
                    ),
                )
                for figure, called, series in (
                    ("broker_gauges", "brokers", ("broker",)),
                    ("directory_gauges", "directories", ("broker", "directory")),
                )
            ),
            Block(
                figure="record_rates",
                plots=(
                    Bars(
                        title="Records per second, by type",
                        time="bucket",
                        series="type",
                        value="per_second",
                    ),
                ),
            ),
        ),
    ),
    Section(
        name="timeline",
        title="Brokers and directories",
        blocks=(
            Block(
                figure="broker_timeline",
                note="Brokers that were fenced or shutting down most often come first.",
                plots=(
                    Intervals(
                        title="Brokers: fenced, unfenced, in controlled shutdown",
                        lane=("broker",),
                        start="valid_from_time",
                        end="valid_to_time",
                        colour="state",
                    ),
                ),
            ),
            Block(
                figure="directory_timeline",
                plots=(
                    Intervals(
                        title="Log directories: online, offline",
                        lane=("broker", "directory"),
                        start="valid_from_time",
                        end="valid_to_time",
                        colour="state",
                    ),
                ),
            ),
        ),
    ),
    Section(
        name="failures",
        title="Failures",
        blocks=(
            Block(
                figure="directory_failures",
                note="From the record that reported a directory offline to the end of the failure.",
                plots=(
                    Intervals(
                        title="Directory failures",
                        lane=("broker", "directory"),
                        start="detected_time",
                        end="closed_time",
                        colour="state",
                    ),
                ),
                open=True,
            ),
            Block(figure="broker_logs", open=True),
            Block(
                figure="failing_directories",
                plots=(
                    Ranking(
                        title="Directories that failed most",
                        label=("broker", "directory"),
                        values=("failures", "open"),
                    ),
                ),
            ),
            Block(
                figure="broker_failures",
                note="From the record that stopped a broker from serving to the record that lets "
                "it serve again.",
                plots=(
                    Intervals(
                        title="Broker failures",
                        lane=("broker",),
                        start="detected_time",
                        end="closed_time",
                        colour="began_by",
                    ),
                ),
            ),
        ),
    ),
    Section(
        name="outages",
        title="Outages",
        facts=("outage_counts",),
        blocks=(
            Block(figure="outages_by_cause", open=True),
            Block(
                figure="outages_over_time",
                plots=(
                    Bars(
                        title="Partitions that lost their leader, by cause",
                        time="bucket",
                        series="cause",
                        value="outages",
                        where={"kind": "leaderless"},
                    ),
                    Bars(
                        title="Partitions that fell under min ISR, by cause",
                        time="bucket",
                        series="cause",
                        value="outages",
                        where={"kind": "under_min_isr"},
                    ),
                ),
            ),
            Block(
                figure="longest_outages",
                plots=(
                    Intervals(
                        title="Longest outages",
                        lane=("topic", "partition"),
                        start="from_time",
                        end="to_time",
                        colour="kind",
                        one_each=True,
                    ),
                ),
            ),
        ),
    ),
    Section(
        name="leadership",
        title="Leadership churn",
        blocks=(
            Block(figure="leadership_causes"),
            Block(
                figure="leadership_over_time",
                plots=(
                    Bars(
                        title="Changes of leaders, by cause",
                        time="bucket",
                        series="cause",
                        value="changes",
                    ),
                ),
            ),
            Block(
                figure="churning_partitions",
                plots=(
                    Ranking(
                        title="Partitions whose leader changed most",
                        label=("topic", "partition"),
                        values=("changes", "to_none"),
                    ),
                ),
            ),
        ),
    ),
    Section(
        name="isr",
        title="ISR flapping",
        blocks=(
            Block(figure="isr_causes"),
            Block(
                figure="isr_over_time",
                plots=(
                    Bars(
                        title="Changes of the ISR",
                        time="bucket",
                        series="change",
                        value="changes",
                    ),
                ),
            ),
            Block(
                figure="flapping_replicas",
                plots=(
                    Ranking(
                        title="Replicas that left the ISR most often",
                        label=("topic", "partition", "broker"),
                        values=("shrinks", "expands"),
                    ),
                ),
            ),
        ),
    ),
    Section(
        name="placement",
        title="Placement skew",
        blocks=(
            Block(
                figure="broker_skew",
                plots=(
                    Ranking(
                        title="Brokers: replicas and leaders, the line is the mean of replicas",
                        label=("broker",),
                        values=("replicas", "leaders"),
                        mark="mean_replicas",
                    ),
                ),
            ),
            Block(
                figure="directory_skew",
                plots=(
                    Ranking(
                        title="Directories: replicas and leaders, the line is the broker's mean",
                        label=("broker", "directory"),
                        values=("replicas", "leaders"),
                        mark="mean_replicas",
                    ),
                ),
            ),
        ),
    ),
    Section(
        name="moves",
        title="Moves and reassignments",
        blocks=(
            Block(figure="moves_by_outcome", open=True),
            *(
                Block(
                    figure=f"slowest_moves_{kind}",
                    plots=(
                        Intervals(
                            title=title,
                            lane=("topic", "partition"),
                            start="begin_time",
                            end="ended_time",
                            colour="outcome",
                            one_each=True,
                        ),
                    ),
                )
                for kind, title in (
                    ("reassignment", "Slowest reassignments to other brokers"),
                    ("directory", "Slowest moves between directories of a broker"),
                )
            ),
            Block(figure="assignment_lag"),
        ),
    ),
    Section(
        name="availability",
        title="Availability",
        facts=("availability",),
        blocks=(
            Block(figure="topic_availability"),
            Block(figure="recovery", open=True),
            Block(
                figure="daily_availability",
                plots=(
                    Intervals(
                        title="Availability of the worst topics by day",
                        lane=("topic",),
                        start="day",
                        end="day",
                        colour="availability",
                        days=True,
                    ),
                ),
            ),
        ),
    ),
    Section(
        name="controllers",
        title="Controllers",
        blocks=(
            Block(
                figure="controller_epochs",
                plots=(
                    Intervals(
                        title="Which controller was active",
                        lane=("controller",),
                        start="from_time",
                        end="to_time",
                        colour="controller",
                    ),
                ),
            ),
            Block(figure="controller_changes"),
        ),
    ),
)
