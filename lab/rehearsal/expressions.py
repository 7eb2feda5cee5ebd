"""Conditions and objectives of a plan.

::

    expression = comparison { "and" comparison }
    comparison = METRIC ( "<" | "<=" | "==" | "!=" | ">=" | ">" ) VALUE
    METRIC     = [ NAME "." ] FIELD [ "(" ARGUMENT ")" ]        first.gap, writers.availability(1s)

A recursive descent, never `eval`. A metric without a value meets no comparison: what was not
measured proves nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lab.rehearsal.values import Quantity, Unit, parse_quantity

_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
_TOKEN = re.compile(
    r"\s*(?:(?P<compared>[<>]=?|[=!]=)|(?P<value>\d[\w.]*%?)"
    r"|(?P<word>[A-Za-z_][\w#-]*)|(?P<mark>[.()]))"
)


@dataclass(frozen=True, slots=True, order=True)
class Metric:
    """A name in an expression: `first.gap` has the owner `first`; one of the cluster has none."""

    owner: str
    field: str
    argument: str = ""

    def __str__(self) -> str:
        text = f"{self.owner}.{self.field}" if self.owner else self.field
        return f"{text}({self.argument})" if self.argument else text


Lookup = Callable[[Metric], float | None]
"""Gives the value of a metric: infinity for what never happened, None for what is not known."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric against one value."""

    metric: Metric
    compared: str
    wanted: Quantity

    def __str__(self) -> str:
        number, unit = self.wanted.number, self.wanted.unit
        shown = {
            Unit.COUNT: f"{number:g}",
            Unit.DURATION: f"{number * 1000:g}ms" if number < 1 else f"{number:g}s",
            Unit.SHARE: f"{number * 100:g}%",
        }
        return f"{self.metric} {self.compared} {shown[unit]}"

    def holds(self, lookup: Lookup) -> bool:
        """Return whether it holds."""
        found = lookup(self.metric)
        return found is not None and _COMPARED[self.compared](found, self.wanted.number)


@dataclass(frozen=True, slots=True)
class Expression:
    """Comparisons that must all hold."""

    comparisons: tuple[Comparison, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.comparisons))

    @property
    def metrics(self) -> list[Metric]:
        """What it asks for, each once."""
        return list(dict.fromkeys(each.metric for each in self.comparisons))

    def holds(self, lookup: Lookup) -> bool:
        """Return whether all of it holds."""
        return all(each.holds(lookup) for each in self.comparisons)


def parse(text: str, unit_of: Callable[[Metric], Unit]) -> Expression:
    """Return the expression that a text says.

    Args:
        text: One line.
        unit_of: Tells what a metric is measured in; raises ValueError for one that there is not.

    Raises:
        ValueError: it says none; the text tells why.
    """
    tokens = list(_tokens(text))
    found = []
    while True:
        comparison, tokens = _comparison(tokens, unit_of)
        found.append(comparison)
        if not tokens:
            return Expression(tuple(found))
        if tokens[0] != ("word", "and"):
            raise ValueError(f'"and" or the end is missing before "{tokens[0][1]}"')
        tokens = tokens[1:]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ValueError(f'"{text[position:end].strip()}" cannot be read')
        yield match.lastgroup, match[match.lastgroup]
        position = match.end()


def _comparison(
    tokens: list[tuple[str, str]], unit_of: Callable[[Metric], Unit]
) -> tuple[Comparison, list[tuple[str, str]]]:
    metric, rest = _metric(tokens)
    unit = unit_of(metric)
    if not rest or rest[0][0] != "compared":
        raise ValueError(f'"{metric}" is compared with nothing: one of {" ".join(_COMPARED)} lacks')
    if len(rest) < 2 or rest[1][0] != "value":
        raise ValueError(f'a value is missing after "{metric} {rest[0][1]}"')
    wanted = parse_quantity(rest[1][1])
    plain_share = unit is Unit.SHARE and wanted.unit is Unit.COUNT and wanted.number <= 1
    if wanted.unit is not unit and not plain_share and rest[1][1] != "0":
        raise ValueError(f'"{metric}" is {unit.value}, and "{rest[1][1]}" is {wanted.unit.value}')
    return Comparison(metric, rest[0][1], Quantity(wanted.number, unit)), rest[2:]


def _metric(tokens: list[tuple[str, str]]) -> tuple[Metric, list[tuple[str, str]]]:
    if not tokens or tokens[0][0] != "word":
        raise ValueError(
            f'a metric is missing before "{tokens[0][1]}"' if tokens else "it is empty"
        )
    owner, field, rest = "", tokens[0][1], tokens[1:]
    if rest and rest[0][1] == ".":
        if len(rest) < 2 or rest[1][0] != "word":
            raise ValueError(f'a metric is missing after "{field}."')
        owner, field, rest = field, rest[1][1], rest[2:]
    if not rest or rest[0][1] != "(":
        return Metric(owner, field), rest
    if len(rest) < 3 or rest[1][0] not in ("value", "word") or rest[2][1] != ")":
        raise ValueError(f'"{field}(" lacks its argument and ")"')
    return Metric(owner, field, rest[1][1]), rest[3:]
