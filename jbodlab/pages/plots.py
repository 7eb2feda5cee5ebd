"""Plots of a table; the script of the page draws them from the table's cells.

A plot without a title has that of its table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """A lane for each value of `lane`, in it a bar from `start` to `end`, coloured by `colour`.

    Without an end a bar goes to the end of the log. With `days` the bars are whole days, and their
    colour shows the share in the column `colour`.
    """

    title: str = ""
    lane: tuple[str, ...]
    start: str = "from_time"
    end: str = "to_time"
    colour: str
    days: bool = False
    one_each: bool = False
    """Whether every row has a lane of its own."""
    in_order: bool = False
    """Whether lanes keep the order of the rows; they are sorted by name otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Stacked bars over time, one for each bucket; `where` keeps rows with these values."""

    title: str = ""
    time: str = "bucket"
    series: str
    value: str
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A lane for each row, named by `label`, in it a bar for each of `values`; `mark` is a line."""

    title: str = ""
    label: tuple[str, ...]
    values: tuple[str, ...]
    mark: str | None = None
    most: int | None = None
    """How many rows are drawn, the first ones; all without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A line for each value of `series`, which keeps its height until its next row.

    `where` keeps rows whose value of a column is one of those named.
    """

    title: str = ""
    time: str = "bucket"
    series: tuple[str, ...]
    value: str
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Plot = Intervals | Bars | Ranking | Steps
