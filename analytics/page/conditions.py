"""Conditions on named figures, as a job that watches a cluster asks for them.

A named figure is a column of a figure of one row, such as ``outages``;
`jbodlab.vocabulary.expressions` has the grammar. A figure without a value, as the longest outage
of a log without any, meets no comparison.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analytics.errors import ReplayInputError
from analytics.page.figure import Answer, Figure
from jbodlab.pages.values import Unit, Value
from jbodlab.vocabulary import expressions
from jbodlab.vocabulary.expressions import Expression, Metric

Known = Mapping[str, Unit]
"""The units of the named figures."""

_UNITS: Mapping[Unit, expressions.Unit] = {
    Unit.NUMBER: expressions.Unit.COUNT,
    Unit.DURATION: expressions.Unit.DURATION,
    Unit.SHARE: expressions.Unit.SHARE,
    Unit.DEVIATION: expressions.Unit.SHARE,
}
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition on named figures.

    Attributes:
        text: As the user wrote it.
        expression: The parsed text.
        known: The units of the named figures.
    """

    text: str
    expression: Expression
    known: Known

    def holds(self, figures: Mapping[str, Value]) -> bool:
        """Return whether it holds for named figures."""

        def value_of(metric: Metric) -> float | None:
            value = figures[metric.field]
            if value is None:
                return None
            is_duration = self.known[metric.field] is Unit.DURATION
            return float(value) / 1000 if is_duration else float(value)

        return self.expression.holds(value_of)

    def found(self, figures: Mapping[str, Value]) -> str:
        """Return the values of the figures that it names."""
        names = [metric.field for metric in self.expression.metrics]
        return ", ".join(
            f"{name} is {'unknown' if figures[name] is None else figures[name]}" for name in names
        )


def known_figures(facts: Sequence[Figure]) -> dict[str, Unit]:
    """Return the named figures of figures of one row."""
    return {
        column.name: column.unit
        for figure in facts
        for column in figure.columns
        if column.unit in _UNITS
    }


def named_values(facts: Sequence[Answer]) -> dict[str, Value]:
    """Return the values of the named figures."""
    known = known_figures([answer.figure for answer in facts])
    return {
        column.name: value
        for answer in facts
        for column, value in zip(answer.figure.columns, answer.rows[0], strict=True)
        if column.name in known
    }


def parse_condition(text: str, known: Known) -> Condition:
    """Return the condition of a text.

    Raises:
        ReplayInputError: the text is not a condition, or names an unknown figure.
    """

    def unit_of(metric: Metric) -> expressions.Unit:
        name = str(metric)
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ValueError(f"unknown figure {name!r} ({hint})")
        return _UNITS[known[name]]

    try:
        expression = expressions.parse(text, unit_of)
    except ValueError as error:
        raise ReplayInputError(f"condition {text!r}: {error}") from error
    return Condition(text=text, expression=expression, known=known)


def parse_objective(text: str) -> float:
    """Return an objective of availability, given in percent, as a share.

    Raises:
        ReplayInputError: the text is not a percentage above 0.
    """
    found = _PERCENT.fullmatch(text)
    percent = float(found[1]) if found else 0
    if not 0 < percent <= 100:
        raise ReplayInputError(f"--objective: expected a percentage up to 100, got {text!r}")
    # As a reader writes it: 99.95 is 0.9995, and nothing beside it.
    return round(percent / 100, 12)
