"""Stories of classic groups, told in text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.broker.groups.scenario import FILES, run_scenario, scenarios_of

SCENARIOS = [(path, title) for path in FILES for title in scenarios_of(path.read_text())]


@pytest.mark.parametrize(("path", "title"), SCENARIOS, ids=lambda each: getattr(each, "stem", each))
def test_scenario(path: Path, title: str) -> None:
    text = path.read_text()
    expected = scenarios_of(text)[title].rstrip("\n") + "\n"

    happened = run_scenario(expected)

    if os.environ.get("JBODLAB_REWRITE_SCENARIOS"):
        path.write_text(text.replace(f"== {title}\n{expected}", f"== {title}\n{happened}"))
    assert happened == expected
