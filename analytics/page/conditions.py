"""Names for `--fail-on` and `--objective` of a replay.

A named figure is a column of a figure of one row, such as ``outages``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from analytics.errors import ReplayInputError
from analytics.page.figure import Figure
from analytics.page.sections import FACTS
from jbodlab.pages.conditions import UNITS
from jbodlab.pages.values import Unit

_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%?")


def known_figures(facts: Sequence[Figure] = FACTS) -> dict[str, Unit]:
    """Return the named figures of figures of one row, and their units."""
    return {
        column.name: column.unit
        for figure in facts
        for column in figure.columns
        if column.unit in UNITS
    }


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
