"""Conditions on named figures, as a job that watches a cluster asks for them.

`jbodlab.vocabulary.expressions` has the grammar. A figure without a value, as the longest outage of
a log without any, meets no comparison.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from jbodlab.pages.values import Unit, Value
from jbodlab.vocabulary import expressions
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.expressions import Expression, MetricName

Known = Mapping[str, Unit]
"""The units of the named figures."""

UNITS: Mapping[Unit, expressions.MetricUnit] = {
    Unit.NUMBER: expressions.MetricUnit.COUNT,
    Unit.DURATION: expressions.MetricUnit.DURATION,
    Unit.SHARE: expressions.MetricUnit.SHARE,
    Unit.DEVIATION: expressions.MetricUnit.SHARE,
}


class ConditionError(JbodlabError):
    """A text is not a condition, or names an unknown figure."""


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

        def value_of(metric: MetricName) -> float | None:
            value = figures[str(metric)]
            if value is None:
                return None
            is_duration = self.known[str(metric)] is Unit.DURATION
            return float(value) / 1000 if is_duration else float(value)

        return self.expression.holds(value_of)

    def found(self, figures: Mapping[str, Value]) -> str:
        """Return the values of the figures that it names."""
        names = [str(metric) for metric in self.expression.metrics]
        return ", ".join(
            f"{name} is {'unknown' if figures[name] is None else figures[name]}" for name in names
        )


def parse_condition(text: str, known: Known) -> Condition:
    """Return the condition of a text.

    Raises:
        ConditionError: the text is not a condition, or names an unknown figure.
    """

    def unit_of(metric: MetricName) -> expressions.MetricUnit:
        name = str(metric)
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ValueError(f"unknown figure {name!r} ({hint})")
        return UNITS[known[name]]

    try:
        expression = expressions.parse(text, unit_of)
    except ValueError as error:
        raise ConditionError(f"condition {text!r}: {error}") from error
    return Condition(text=text, expression=expression, known=known)
