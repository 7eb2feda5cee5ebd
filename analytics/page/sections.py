"""The sections of the report: each is a file in the folder `sections`, with the SQL of its figures.

A table `facts` declares a figure of one row, `figures` one of several; its keys are the attributes
of `Figure`, its tables (`intervals`, `bars`, `ranking`, `steps`) the plots of `jbodlab.pages`. A
figure with `each` is one for each of these rows of words. `$word` in a text stands for a word.
Some stay, for what is only known of a log: `$end_ms`, the last time that counts; `$bucket_ms`, the
width of a period; `$first_day`, where the last days begin; and `$objective` of availability.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any

from analytics.page.figure import Figure
from jbodlab.pages.plots import Bars, Intervals, Ranking, Steps

_ORDER = (
    *("incidents", "risk", "log", "gauges", "timeline", "failures", "outages", "leadership"),
    *("isr", "placement", "moves", "availability", "rights", "controllers"),
)
_PLOTS = {"intervals": Intervals, "bars": Bars, "ranking": Ranking, "steps": Steps}


@dataclass(frozen=True)
class FigureSection:
    """A heading, figures of one row each, and figures below them."""

    name: str
    title: str
    facts: tuple[Figure, ...] = ()
    figures: tuple[Figure, ...] = ()


def _section(name: str) -> FigureSection:
    file = files(__package__).joinpath("sections", f"{name}.toml")
    declared = tomllib.loads(file.read_text("utf-8"))
    parts = (tuple(_figures(declared.get(key, ()))) for key in ("facts", "figures"))
    return FigureSection(name, declared["title"], *parts)


def _figures(declared: list[dict[str, Any]]) -> Iterator[Figure]:
    for one in declared:
        for own in one.get("each", ({},)):
            found = _filled(one, own)
            found.pop("each", None)
            plots = [
                _PLOTS[kind](**plot) for kind in found.keys() & _PLOTS for plot in found.pop(kind)
            ]
            yield Figure(**found, plots=tuple(plots))


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """Return a value with its words; a word may stand for several elements of a list."""
    match value:
        case str():
            return Template(value).safe_substitute(words)
        case dict():
            return {key: _filled(each, words) for key, each in value.items() if key != "each"}
        case [str(), *_]:
            return tuple(text for each in value for text in _filled(each, words).split(", "))
        case list():
            return tuple(_filled(each, words) for each in value)
        case _:
            return value


SECTIONS = tuple(map(_section, _ORDER))
"""The sections of the report."""

FACTS = tuple(figure for section in SECTIONS for figure in section.facts)
"""Figures of one row, whose columns are the named figures that conditions ask for."""

FIGURES = tuple(figure for section in SECTIONS for figure in (*section.facts, *section.figures))
"""All figures, in the order of the report."""
