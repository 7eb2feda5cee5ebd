from __future__ import annotations

from itertools import product

import pytest

from controller.quorum.election import TRANSITIONS, Event, Role, SoleVoter
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch


def voter(role: Role, epoch: int = 7) -> SoleVoter:
    return SoleVoter(node_id=BrokerId(1), epoch=LeaderEpoch(epoch), role=role)


@pytest.mark.parametrize("role", [Role.UNATTACHED, Role.RESIGNED])
def test_each_election_raises_the_epoch(role: Role) -> None:
    elected = voter(role).handle(Event.ELECTED)

    assert elected == voter(Role.LEADER, 8)
    assert elected.leads_in(LeaderEpoch(8))
    assert not elected.leads_in(LeaderEpoch(7))


def test_who_resigned_leads_in_no_epoch() -> None:
    resigned = voter(Role.LEADER).handle(Event.RESIGNED)

    assert resigned == voter(Role.RESIGNED)
    assert not resigned.leads_in(LeaderEpoch(7))


def test_what_is_not_in_the_table_raises() -> None:
    for role, event in product(Role, Event):
        if (role, event) not in TRANSITIONS:
            with pytest.raises(KeyError):
                voter(role).handle(event)
    assert len(TRANSITIONS) == 3
