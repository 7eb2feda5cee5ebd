"""The plans that have found bugs, as histories."""

from __future__ import annotations

from pathlib import Path

from tests.simulation.command import print_outcomes
from tests.simulation.plan import read_plan

KEPT = sorted(Path(__file__).with_name("plans").glob("*.json"))

if __name__ == "__main__":
    print_outcomes(map(read_plan, KEPT))
