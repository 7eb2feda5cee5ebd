"""The end of the log in memory."""

from __future__ import annotations

import pytest

from controller.quorum import recent_batches
from controller.quorum.recent_batches import LogBatch, RecentBatches
from jbodlab.vocabulary.ids import Offset


def batch(base: int, end: int, size: int = 10) -> LogBatch:
    return LogBatch(Offset(base), Offset(end), bytes(size))


def recent(*batches: LogBatch) -> RecentBatches:
    found = RecentBatches()
    for each in batches:
        found.append(each)
    return found


ONE, TWO, THREE = batch(5, 7), batch(7, 8), batch(8, 12)


@pytest.mark.parametrize(
    ("first", "end", "found"),
    [
        (5, 12, [ONE, TWO, THREE]),
        (7, 12, [TWO, THREE]),
        (7, 8, [TWO]),
        # The end is in the middle of a batch.
        (7, 11, [TWO]),
        (6, 12, None),
        (4, 12, None),
        (12, 12, None),
    ],
)
def test_batches_are_found_from_where_one_begins(
    first: int, end: int, found: list[LogBatch] | None
) -> None:
    assert recent(ONE, TWO, THREE).between(Offset(first), Offset(end)) == found


def test_at_least_one_batch_is_found_however_large() -> None:
    it = recent(ONE, TWO, THREE)

    assert it.between(Offset(5), Offset(12), 1) == [ONE]
    assert it.between(Offset(5), Offset(12), 20) == [ONE, TWO]


def test_a_truncation_forgets_the_end() -> None:
    it = recent(ONE, TWO, THREE)

    it.truncate(Offset(8))

    assert it.between(Offset(5), Offset(12)) == [ONE, TWO]
    it.append(batch(8, 9))


def test_the_oldest_batches_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_batches, "RECENT_BYTES_MAX", 25)

    it = recent(ONE, TWO, THREE)

    assert it.between(Offset(5), Offset(12)) is None
    assert it.between(Offset(7), Offset(12)) == [TWO, THREE]
