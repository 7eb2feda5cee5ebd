from __future__ import annotations

import pytest

from broker.following.replica_sync import truncation_offset
from jbodlab.storage.log.leader_epochs import LeaderEpochs


@pytest.mark.parametrize(
    ("entries", "log_end", "leader_epoch", "leader_end", "expected"),
    [
        # The epoch is known here: cut to where the shorter of both ends.
        ([(0, 0), (2, 10)], 20, 2, 15, 15),
        ([(0, 0), (2, 10)], 20, 2, 30, 20),
        ([(0, 0), (2, 10)], 20, 0, 12, 10),
        ([(0, 0), (2, 10)], 20, 0, 7, 7),
        # Only a smaller one is: cut to its end here and ask again.
        ([(0, 0), (3, 10)], 20, 2, 15, 10),
        # Only larger ones are: their start is all that can be common.
        ([(3, 10)], 20, 2, 15, 10),
        ([(3, 10)], 20, 2, 5, 5),
        # Nothing is known.
        ([], 20, 2, 15, 15),
        ([], 20, 2, 30, 20),
    ],
)
def test_follower_cuts_to_what_it_may_share_with_its_leader(
    entries: list[tuple[int, int]], log_end: int, leader_epoch: int, leader_end: int, expected: int
) -> None:
    epochs = LeaderEpochs(entries)

    assert truncation_offset(epochs, log_end, leader_epoch, leader_end) == expected
