"""What is drawn of a figure; the script of the page draws it from the figure's table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

GOOD, BAD, WARN, CALM, GREY, ODD, SKY, YELLOW = range(8)
"""Numbers of the colours in the style sheet, which are told apart by the colour-blind too."""

STATES: Mapping[str, int] = {
    "unfenced": GOOD,
    "fenced": WARN,
    "controlled_shutdown": CALM,
    "online": GOOD,
    "offline": BAD,
    "open": BAD,
    "closed": WARN,
}
CAUSES: Mapping[str, int] = {
    "directory": BAD,
    "broker": WARN,
    "controller": CALM,
    "controlled_shutdown": CALM,
    "unregistered": YELLOW,
    "reassignment": SKY,
    "preferred": GOOD,
    "unclean": ODD,
    "recovered": GOOD,
    "follower": ODD,
    "elected": GOOD,
    "unknown": GREY,
}
KINDS: Mapping[str, int] = {
    "leaderless": BAD,
    "under_min_isr": WARN,
    "shrink": WARN,
    "expand": GOOD,
    "replace": CALM,
    "completed": GOOD,
    "swapped": GOOD,
    "cancelled": GREY,
    "reverted": WARN,
    "running": CALM,
}
GAUGES: Mapping[str, int] = {
    "leaderless": BAD,
    "under_min_isr": WARN,
    "under_replicated": CALM,
    "offline_replicas": ODD,
    "not_preferred": GREY,
    "offline_directories": BAD,
    "failed_brokers": WARN,
}
COLOURS: Mapping[str, int] = {**STATES, **CAUSES, **KINDS, **GAUGES, "registered": ODD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """A lane for each value of `lane`, in it a bar from `start` to `end`, coloured by `colour`.

    Without an end a bar goes to the end of the log. With `days` the bars are whole days, and their
    colour stands for the share in the column `colour`.
    """

    title: str
    lane: tuple[str, ...]
    start: str
    end: str
    colour: str
    days: bool = False
    one_each: bool = False
    """Whether every row has a lane of its own."""

    def spec(self, default_end: str) -> dict[str, object]:
        """Return what the script needs; `default_end` is the end of the log in ISO 8601."""
        return {
            "kind": "intervals",
            "title": self.title,
            "lane": self.lane,
            "start": self.start,
            "end": self.end,
            "colour": self.colour,
            "days": self.days,
            "oneEach": self.one_each,
            "logEnd": default_end,
            "colours": COLOURS,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Stacked bars over time, one for each bucket; `where` keeps rows with these values."""

    title: str
    time: str
    series: str
    value: str
    where: Mapping[str, str] = field(default_factory=dict)

    def spec(self, bucket_ms: int) -> dict[str, object]:
        """Return what the script needs."""
        return {
            "kind": "bars",
            "title": self.title,
            "time": self.time,
            "series": self.series,
            "value": self.value,
            "where": dict(self.where),
            "bucketMs": bucket_ms,
            "colours": COLOURS,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A lane for each row, named by `label`, in it a bar for each of `values`; `mark` is a line."""

    title: str
    label: tuple[str, ...]
    values: tuple[str, ...]
    mark: str | None = None
    most: int | None = None
    """How many rows are drawn, the first ones; all without it."""

    def spec(self) -> dict[str, object]:
        """Return what the script needs."""
        return {
            "kind": "ranking",
            "title": self.title,
            "label": self.label,
            "values": self.values,
            "mark": self.mark,
            "most": self.most,
            "colours": {},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A line for each value of `series`, which keeps its height until the next row of it.

    `where` keeps rows whose value of a column is one of those named.
    """

    title: str
    time: str
    series: tuple[str, ...]
    value: str
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def spec(self, default_end: str) -> dict[str, object]:
        """Return what the script needs; `default_end` is the end of the log in ISO 8601."""
        return {
            "kind": "steps",
            "title": self.title,
            "time": self.time,
            "series": self.series,
            "value": self.value,
            "where": dict(self.where),
            "logEnd": default_end,
            "colours": COLOURS,
        }


Plot = Intervals | Bars | Ranking | Steps


def spec_text(plot: Plot, bucket_ms: int, log_end: str) -> str:
    """Return the plot as JSON for the script."""
    match plot:
        case Intervals() | Steps():
            spec = plot.spec(log_end)
        case Bars():
            spec = plot.spec(bucket_ms)
        case Ranking():
            spec = plot.spec()
    return json.dumps(spec, separators=(",", ":"))
