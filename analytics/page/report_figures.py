"""Every figure of the report, asked of the tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from analytics.page.conditions import known_figures
from analytics.page.figure import Answers, ask_all
from analytics.page.log_span import LogSpan, log_spans
from analytics.page.sections import FACTS, FIGURES
from analytics.store.questions import Questions
from analytics.store.stored_tables import StoredTables
from jbodlab.pages.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The answers by the name of the figure, and the time that they are about."""

    span: LogSpan
    answers: Answers
    paths: Mapping[str, str] = field(default_factory=dict)
    """Where log directories lie, by their ids, as far as that is known."""

    @property
    def named(self) -> dict[str, Value]:
        """The named figures, which conditions ask for: the columns of figures of one row."""
        return {
            name: self.answers[figure.name].values(name)[0]
            for figure in FACTS
            for name in known_figures([figure])
        }


def ask_figures(
    tables: StoredTables,
    clusters: Collection[str],
    objective: float | None = None,
    paths: Mapping[str, str] | None = None,
) -> dict[str, Figures]:
    """Ask the tables for all figures of some clusters.

    Args:
        tables: Every table of `tables.catalog`, from one replay, with the column `cluster`.
        clusters: Their names.
        objective: Share of time, 0 to 1, in which partitions should be available; None without.
        paths: Where log directories lie, by their ids.
    """
    with Questions(tables.dataset) as questions:
        spans = log_spans(questions, clusters)
        words = {cluster: span.words(objective) for cluster, span in spans.items()}
        answers = ask_all(FIGURES, questions, words)
    return {
        cluster: Figures(span=span, answers=answers[cluster], paths=paths or {})
        for cluster, span in spans.items()
    }
