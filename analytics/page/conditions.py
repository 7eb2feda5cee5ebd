"""Conditions on named figures, as a job that watches a cluster asks for them.

::

    condition  = all { "or" all }
    all        = comparison { "and" comparison }
    comparison = NAME ( ">" | ">=" | "<" | "<=" | "==" | "!=" ) NUMBER [ UNIT ]
    UNIT       = "ms" | "s" | "min" | "h" | "d" of durations (milliseconds without), "%" of shares

A named figure is a column of a figure of one row, such as ``outages``. One whose value is not
known, as the longest outage of a log without any, meets no comparison.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analytics.errors import ReplayInputError
from analytics.page.figure import Answer, Figure, Unit, Value

Known = Mapping[str, Unit]
"""The named figures that there are, and what they are measured in."""

_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_SCALES: Mapping[Unit, Mapping[str, float]] = {
    Unit.NUMBER: {"": 1},
    Unit.DURATION: {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
    Unit.SHARE: {"": 1, "%": 0.01},
    Unit.DEVIATION: {"": 1, "%": 0.01},
}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)(?P<unit>[A-Za-z%]*)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<compared>[<>]=?|[=!]=))"
)


_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure against one number."""

    name: str
    compared: str
    number: float

    def holds(self, figures: Mapping[str, Value]) -> bool:
        """Return whether it holds; a figure that is not known meets no comparison."""
        value = figures[self.name]
        return value is not None and _COMPARED[self.compared](float(value), self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a user wrote, and what of it must hold: one of these, each as a whole."""

    text: str
    any_of: tuple[tuple[Comparison, ...], ...]

    def holds(self, figures: Mapping[str, Value]) -> bool:
        """Return whether it holds for named figures."""
        return any(all(each.holds(figures) for each in every) for every in self.any_of)

    def found(self, figures: Mapping[str, Value]) -> str:
        """Return what the figures are that it asks for."""
        names = dict.fromkeys(each.name for every in self.any_of for each in every)
        values = ("unknown" if figures[name] is None else str(figures[name]) for name in names)
        return ", ".join(f"{name} is {value}" for name, value in zip(names, values, strict=True))


def known_figures(facts: Sequence[Figure]) -> dict[str, Unit]:
    """Return the named figures of figures of one row."""
    return {
        column.name: column.unit
        for figure in facts
        for column in figure.columns
        if column.unit in _SCALES
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
    """Return the condition that a text says.

    Raises:
        ReplayInputError: it says none.
    """
    try:
        return Condition(text=text, any_of=_parsed(list(_tokens(text)), known))
    except ValueError as error:
        names = ", ".join(known)
        raise ReplayInputError(f"condition {text!r}: {error}; the figures are {names}") from error


def parse_objective(text: str) -> float:
    """Return an objective of availability, given in percent, as a share.

    Raises:
        ReplayInputError: it is no percentage above 0.
    """
    found = _PERCENT.fullmatch(text)
    percent = float(found[1]) if found else 0
    if not 0 < percent <= 100:
        raise ReplayInputError(f"--objective: {text!r} is no percentage above 0 and up to 100")
    # As a reader writes it: 99.95 is 0.9995, and nothing beside it.
    return round(percent / 100, 12)


def _tokens(text: str) -> Iterator[re.Match[str]]:
    place = 0
    while text[place:].strip():
        token = _TOKEN.match(text, place)
        if token is None:
            raise ValueError(f"cannot read {text[place:].strip()!r}")
        yield token
        place = token.end()


def _parsed(tokens: Sequence[re.Match[str]], known: Known) -> tuple[tuple[Comparison, ...], ...]:
    any_of: list[list[Comparison]] = [[]]
    place = 0
    while True:
        any_of[-1].append(_comparison(tokens[place : place + 3], known))
        place += 3
        if place == len(tokens):
            return tuple(map(tuple, any_of))
        match tokens[place]["word"]:
            case "and":
                pass
            case "or":
                any_of.append([])
            case _:
                raise ValueError(f"{tokens[place][0].strip()!r} stands where 'and' or 'or' should")
        place += 1


def _comparison(tokens: Sequence[re.Match[str]], known: Known) -> Comparison:
    for at, (group, wanted) in enumerate(
        (("word", "a figure"), ("compared", "a comparison"), ("number", "a number"))
    ):
        if at >= len(tokens):
            raise ValueError(f"{wanted} is missing at its end")
        if tokens[at][group] is None:
            raise ValueError(f"{tokens[at][0].strip()!r} stands where {wanted} should")
    name, number, unit = tokens[0]["word"], tokens[2]["number"], tokens[2]["unit"]
    if name not in known:
        raise ValueError(f"{name!r} is no figure")
    scales = _SCALES[known[name]]
    # A share that is meant as percents would hold always, or never.
    too_much = known[name] is Unit.SHARE and not unit and float(number) > 1
    if unit not in scales or too_much:
        raise ValueError(f"{number + unit!r} is no {known[name].value}")
    return Comparison(
        name=name, compared=tokens[1]["compared"], number=float(number) * scales[unit]
    )
