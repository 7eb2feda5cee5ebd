"""Tables of cases: a line for each, with its name and its cells, and bars between them."""

from __future__ import annotations

from typing import Any

import pytest


def cases(text: str) -> list[Any]:
    """Return the lines as parameters of a test; cells are texts."""
    lines = (map(str.strip, line.split("|")) for line in text.strip().splitlines())
    return [pytest.param(*cells, id=name) for name, *cells in lines]
