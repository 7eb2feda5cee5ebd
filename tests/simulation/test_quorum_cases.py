"""Situations of several controllers, each in a history of the whole cluster."""

from __future__ import annotations

import pytest

from tests.simulation import quorum_cases
from tests.simulation.command import outcomes_of
from tests.simulation.quorum_cases import CASES, Case

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(1_800),
    pytest.mark.xdist_group("controllers"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_several_controllers_lose_nothing_and_recover(case: Case) -> None:
    outcome = outcomes_of(quorum_cases.__name__)[CASES.index(case)]

    assert outcome["violation"] is None
    happened = {f"event {fault}" for fault, *_ in case.events}
    assert happened | {*case.comes} <= {name for name, times in outcome["seen"].items() if times}
