"""Every figure of the report, asked of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analytics.page.conditions import known_figures, named_values
from analytics.page.figure import Answer, ask_all
from analytics.page.log_span import LogSpan, log_span
from analytics.page.sections import FACTS, figures_of
from analytics.store.questions import Readable
from jbodlab.pages.values import Unit, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The answers by the name of the figure, and the time that they are about."""

    span: LogSpan
    answers: Mapping[str, Answer]
    paths: Mapping[str, str] = field(default_factory=dict)
    """Where log directories lie, by their ids, as far as that is known."""

    @property
    def named(self) -> dict[str, Value]:
        """The named figures, which conditions ask for: the columns of figures of one row."""
        return named_values([self.answers[figure.name] for figure in FACTS])


def names_of_figures() -> dict[str, Unit]:
    """Return the names that conditions may ask for, and their units."""
    return known_figures(FACTS)


def ask_figures(
    tables: Readable, objective: float | None = None, paths: Mapping[str, str] | None = None
) -> Figures:
    """Ask the tables for all figures.

    Args:
        tables: Every table of `tables.catalog`, from one replay.
        objective: Share of time, 0 to 1, in which partitions should be available; None without.
        paths: Where log directories lie, by their ids.
    """
    span = log_span(tables)
    answers = ask_all(figures_of(span, objective), tables)
    return Figures(span=span, answers=answers, paths=paths or {})
