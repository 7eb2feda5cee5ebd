"""Titles and units of the columns of figures (`columns.toml`): a name means the same in each."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files

from jbodlab.pages.values import Column, Unit

_DECLARED = tomllib.loads(files(__package__).joinpath("columns.toml").read_text("utf-8"))
_TITLES: Mapping[str, str] = _DECLARED["titles"]
_UNIT_OF = {
    name: Unit[unit] for unit, names in _DECLARED["units"].items() for name in names.split()
}
_SUFFIXES = (("_time", Unit.TIME), ("_offset", Unit.LABEL), ("_ms", Unit.DURATION))


def columns(names: Iterable[str], titles: Mapping[str, str]) -> tuple[Column, ...]:
    """Return columns.

    Args:
        names: Their names.
        titles: Where they differ from those that a name has elsewhere.
    """
    return tuple(
        Column(name=name, title=titles.get(name) or _title(name), unit=_unit(name))
        for name in names
    )


def _title(name: str) -> str:
    words = name.removesuffix("_ms").removesuffix("_time").replace("_", " ")
    return _TITLES.get(name) or words.capitalize().replace(" isr", " ISR")


def _unit(name: str) -> Unit:
    if name in _UNIT_OF:
        return _UNIT_OF[name]
    found = [unit for suffix, unit in _SUFFIXES if name.endswith(suffix)]
    return found[0] if found else Unit.NUMBER
