"""The end of a transaction when a directory dies, in each of its states: one history each."""

from __future__ import annotations

import pytest

from tests.simulation import dying_directories
from tests.simulation.command import outcomes_of
from tests.simulation.dying_directories import ALONE, CELLS, Cell

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(1_800),
    pytest.mark.xdist_group("dying directories"),
]


def check(number: int) -> None:
    outcome = outcomes_of(dying_directories.__name__)[number]
    assert outcome["violation"] is None
    assert outcome["seen"]["a directory of a transaction dies"] == 1
    # Chance may have all of them aborted: by their producers, or since one stood still.
    ends = [outcome["seen"].get(f"a transaction was {end}", 0) for end in ("committed", "aborted")]
    assert sum(ends) >= 1


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_transaction_is_whole_and_ends_when_a_directory_dies(cell: Cell) -> None:
    check(CELLS.index(cell))


@pytest.mark.parametrize("cell", ALONE, ids=lambda cell: cell.name)
def test_a_transaction_ends_when_the_only_directory_of_its_records_is_back(cell: Cell) -> None:
    check(len(CELLS) + ALONE.index(cell))
