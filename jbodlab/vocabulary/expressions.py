"""Conditions on measured values: objectives of plans, and `--fail-on` of the replay.

::

    expression = all { "or" all }
    all        = comparison { "and" comparison }
    comparison = METRIC ( "<" | "<=" | "==" | "!=" | ">=" | ">" ) VALUE
    METRIC     = [ NAME "." ] FIELD [ "(" ARGUMENT ")" ]        first.gap, writers.availability(1s)
    VALUE      = number, duration (250ms, 5m, 1m30s) or share (99.5%)

A recursive descent, never `eval`. A metric without a value meets no comparison: a value that was
not measured proves nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from jbodlab.vocabulary.durations import duration_s

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
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MILLISECONDS = "_ms"
"""End of the names of metrics for which a number without a unit is milliseconds."""


class MetricUnit(Enum):
    """The unit of a metric."""

    COUNT = "a number"
    DURATION = "a duration"
    SHARE = "a share"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit: seconds for durations, 0 to 1 for shares."""

    number: float
    unit: MetricUnit


@dataclass(frozen=True, slots=True, order=True)
class MetricName:
    """A name in an expression: `first.gap` has the owner `first`; one of the cluster has none."""

    owner: str
    field: str
    argument: str = ""

    def __str__(self) -> str:
        text = f"{self.owner}.{self.field}" if self.owner else self.field
        return f"{text}({self.argument})" if self.argument else text


Lookup = Callable[[MetricName], float | None]
"""Gives the value of a metric: infinity for what never happened, None for an unknown value."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric against one value."""

    metric: MetricName
    compared: str
    wanted: Quantity

    def __str__(self) -> str:
        number, unit = self.wanted.number, self.wanted.unit
        shown = {
            MetricUnit.COUNT: f"{number:g}",
            MetricUnit.DURATION: f"{number * 1000:g}ms" if number < 1 else f"{number:g}s",
            MetricUnit.SHARE: f"{number * 100:g}%",
        }
        return f"{self.metric} {self.compared} {shown[unit]}"

    def holds(self, lookup: Lookup) -> bool:
        """Return whether it holds."""
        found = lookup(self.metric)
        return found is not None and _COMPARED[self.compared](found, self.wanted.number)


@dataclass(frozen=True, slots=True)
class Expression:
    """Groups of comparisons, of which all of at least one group must hold."""

    any_of: tuple[tuple[Comparison, ...], ...]

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, every)) for every in self.any_of)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All comparisons, in the order of the text."""
        return tuple(each for every in self.any_of for each in every)

    @property
    def metrics(self) -> list[MetricName]:
        """The metrics of all comparisons, each once."""
        return list(dict.fromkeys(each.metric for each in self.comparisons))

    @property
    def required(self) -> tuple[Expression, ...]:
        """Expressions that must all hold: each comparison, or the whole if it has an "or"."""
        if len(self.any_of) > 1:
            return (self,)
        return tuple(Expression(((each,),)) for each in self.comparisons)

    def holds(self, lookup: Lookup) -> bool:
        """Return whether it holds."""
        return any(all(each.holds(lookup) for each in every) for every in self.any_of)


def parse(text: str, unit_of: Callable[[MetricName], MetricUnit]) -> Expression:
    """Return the expression of a text.

    Args:
        text: One line.
        unit_of: Gives the unit of a metric; raises ValueError for an unknown one.

    Raises:
        ValueError: the text is not an expression; the message says why.
    """
    tokens = list(_tokens(text))
    any_of: list[list[Comparison]] = [[]]
    while True:
        comparison, tokens = _comparison(tokens, unit_of)
        any_of[-1].append(comparison)
        if not tokens:
            return Expression(tuple(map(tuple, any_of)))
        if tokens[0] == ("word", "or"):
            any_of.append([])
        elif tokens[0] != ("word", "and"):
            raise ValueError(f'expected "and", "or" or the end, got "{tokens[0][1]}"')
        tokens = tokens[1:]


def parse_quantity(text: str) -> Quantity:
    """Return the value at the end of a comparison: a number, a duration, or a share in percent.

    Raises:
        ValueError: it is none of them.
    """
    if _NUMBER.fullmatch(text):
        return Quantity(float(text), MetricUnit.COUNT)
    if text.endswith("%") and _NUMBER.fullmatch(text[:-1]):
        # Of the text and not of the number: 0.995 is nearer to 99.5 % than 99.5 / 100 is.
        whole, _, rest = text[:-1].partition(".")
        return Quantity(float(f"{whole}{rest}e-{2 + len(rest)}"), MetricUnit.SHARE)
    try:
        return Quantity(duration_s(text), MetricUnit.DURATION)
    except ValueError:
        raise ValueError(f'expected a number, a duration or a percentage, got "{text}"') from None


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ValueError(f'cannot read "{text[position:end].strip()}"')
        yield match.lastgroup, match[match.lastgroup]
        position = match.end()


def _comparison(
    tokens: list[tuple[str, str]], unit_of: Callable[[MetricName], MetricUnit]
) -> tuple[Comparison, list[tuple[str, str]]]:
    metric, rest = _metric(tokens)
    unit = unit_of(metric)
    signs = " ".join(_COMPARED)
    _, compared = _expect("compared", f'one of {signs} after "{metric}"', rest)
    _, value = _expect("value", f'a value after "{metric} {compared}"', rest[1:])
    return Comparison(metric, compared, _in_unit(metric, unit, value)), rest[2:]


def _in_unit(metric: MetricName, unit: MetricUnit, text: str) -> Quantity:
    found = parse_quantity(text)
    if found.unit is unit or text == "0":
        return Quantity(found.number, unit)
    if found.unit is MetricUnit.COUNT and unit is MetricUnit.SHARE and found.number <= 1:
        return Quantity(found.number, unit)
    if (
        found.unit is MetricUnit.COUNT
        and unit is MetricUnit.DURATION
        and metric.field.endswith(_MILLISECONDS)
    ):
        return Quantity(found.number / 1000, unit)
    raise ValueError(f'expected {unit.value} for "{metric}", got "{text}"')


def _metric(tokens: list[tuple[str, str]]) -> tuple[MetricName, list[tuple[str, str]]]:
    owner, field = "", _expect("word", "a metric", tokens)[1]
    rest = tokens[1:]
    if rest and rest[0][1] == ".":
        owner, field = field, _expect("word", f'a metric after "{field}."', rest[1:])[1]
        rest = rest[2:]
    if not rest or rest[0][1] != "(":
        return MetricName(owner, field), rest
    if len(rest) < 3 or rest[1][0] not in ("value", "word") or rest[2][1] != ")":
        raise ValueError(f'expected an argument and ")" after "{field}("')
    return MetricName(owner, field, rest[1][1]), rest[3:]


def _expect(kind: str, wanted: str, tokens: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the first token.

    Raises:
        ValueError: it is of another kind, or missing.
    """
    if tokens and tokens[0][0] == kind:
        return tokens[0]
    raise ValueError(f"expected {wanted}, got " + (f'"{tokens[0][1]}"' if tokens else "the end"))
