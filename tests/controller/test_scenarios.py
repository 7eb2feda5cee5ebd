from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.controller.scenario import run_scenario

SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.txt"))


def test_there_are_scenarios() -> None:
    assert SCENARIOS


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected = path.read_text()

    happened = run_scenario(expected)

    if os.environ.get("JBODLAB_REWRITE_SCENARIOS"):
        path.write_text(happened)
    assert happened == expected
