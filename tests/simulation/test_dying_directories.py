"""The end of a transaction when a directory dies, in each of its states: one history each."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.dying_directories import ALONE, CELLS, Cell

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("dying directories")]


@functools.cache
def outcomes() -> list[dict[str, Any]]:
    """Run all histories in one process; it warms up once."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.simulation.dying_directories"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-1000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def check(number: int) -> None:
    outcome = outcomes()[number]
    assert outcome["violation"] is None
    assert outcome["seen"]["a directory of a transaction dies"] == 1
    assert outcome["seen"]["a transaction was committed"] >= 1


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_transaction_is_whole_and_ends_when_a_directory_dies(cell: Cell) -> None:
    check(CELLS.index(cell))


@pytest.mark.parametrize("cell", ALONE, ids=lambda cell: cell.name)
def test_a_transaction_ends_when_the_only_directory_of_its_records_is_back(cell: Cell) -> None:
    check(len(CELLS) + ALONE.index(cell))
