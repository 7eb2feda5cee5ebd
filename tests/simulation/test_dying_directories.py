"""The end of a transaction when a directory dies, in each of its states: one history each."""

from __future__ import annotations

import pytest

from tests.simulation import dying_directories
from tests.simulation.command import outcomes_of
from tests.simulation.dying_directories import ALONE, CELLS, HISTORIES, KINDS

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(1_800),
    pytest.mark.xdist_group("dying directories"),
]

LATER = [n for n in range(len(CELLS)) if n % len(KINDS) != n // len(KINDS) % len(KINDS)]
"""Numbers of the histories that only `make night` plays: each state has one kind of death now."""
NOW = [n for n in range(len(HISTORIES)) if n not in LATER]


def check(number: int) -> None:
    numbers = LATER if number in LATER else NOW
    outcomes = outcomes_of(dying_directories.__name__, *map(str, numbers))
    outcome = outcomes[numbers.index(number)]
    assert outcome["violation"] is None
    assert outcome["seen"]["a directory of a transaction dies"] == 1
    # Chance may have all of them aborted: by their producers, or since one stood still.
    ends = [outcome["seen"].get(f"a transaction was {end}", 0) for end in ("committed", "aborted")]
    assert sum(ends) >= 1


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=cell.name, marks=pytest.mark.soak if number in LATER else ())
        for number, cell in enumerate(CELLS)
    ],
)
def test_a_transaction_is_whole_and_ends_when_a_directory_dies(number: int) -> None:
    check(number)


@pytest.mark.parametrize("kind", [cell.kind for cell in ALONE])
def test_a_transaction_ends_when_the_only_directory_of_its_records_is_back(kind: str) -> None:
    check(len(CELLS) + KINDS.index(kind))
