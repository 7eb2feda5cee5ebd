"""A schedule decides by what is known; texts say what, beside what they are given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.findings import Kind, Weight
from lab.plan.plans import shipped
from tests.lab.rehearsal.scheduling import run_scenarios

SCENARIOS = sorted((Path(__file__).parent / "schedules").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_is_decided_is_what_the_text_says(path: Path) -> None:
    expected = path.read_text()

    decided = run_scenarios(expected)

    if os.environ.get("JBODLAB_REWRITE_SCENARIOS"):
        path.write_text(decided)
    assert decided == expected


def test_every_doubt_that_a_schedule_or_a_fault_gives_rise_to_has_its_scenario() -> None:
    """Others are about single kinds of clients: `test_judgement`."""
    text = "".join(path.read_text() for path in SCENARIOS)
    of_clients = {Kind.NOTHING_COUNTED, Kind.UNREAD}
    doubts = {kind for kind in Kind if kind.weight is Weight.DOUBT} - of_clients

    assert {kind for kind in doubts if f"{kind.name.lower()}" not in text} == set()


def test_every_shipped_plan_has_its_scenario() -> None:
    text = "".join(path.read_text() for path in SCENARIOS)

    assert [name for name in shipped() if f"\nplan {name}\n" not in text] == []
