from __future__ import annotations

import pytest

from broker.placement.reported_directory import Placement, Presence, directory_to_report
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from jbodlab.vocabulary.ids import DirectoryId
from tests.broker.disks import directory_id

D1, D2 = directory_id(1), directory_id(2)


def test_replica_where_the_metadata_has_it_needs_no_report() -> None:
    placement = Placement(assigned=D1, presence=Presence.ONLINE, actual=D1)
    assert directory_to_report(placement) is None


@pytest.mark.parametrize("assigned", [D2, UNASSIGNED, MIGRATING, LOST])
def test_replica_elsewhere_is_reported_where_it_is(assigned: object) -> None:
    placement = Placement(assigned=assigned, presence=Presence.ONLINE, actual=D1)  # type: ignore[arg-type]
    assert directory_to_report(placement) == D1


def test_empty_replacement_of_the_last_in_sync_replica_is_lost_and_not_reported_as_there() -> None:
    heir = Placement(assigned=D2, presence=Presence.ONLINE, actual=D1, is_empty_last_in_sync=True)
    assert directory_to_report(heir) == LOST
    same = Placement(assigned=D1, presence=Presence.ONLINE, actual=D1, is_empty_last_in_sync=True)
    assert directory_to_report(same) == LOST
    told = Placement(assigned=LOST, presence=Presence.ONLINE, actual=D1, is_empty_last_in_sync=True)
    assert directory_to_report(told) is None


@pytest.mark.parametrize("presence", [Presence.FAILED, Presence.ABSENT])
def test_replica_that_only_the_controller_takes_for_online_is_lost(presence: Presence) -> None:
    online = Placement(assigned=D1, presence=presence, counts_as_online=True)
    assert directory_to_report(online) == LOST
    # The heartbeats say it of a directory that has failed.
    offline = Placement(assigned=D1, presence=presence, counts_as_online=False)
    assert directory_to_report(offline) is None


@pytest.mark.parametrize("assigned", [D2, UNASSIGNED, MIGRATING])
def test_replica_that_failed_with_its_directory_is_reported_in_it(assigned: DirectoryId) -> None:
    placement = Placement(assigned=assigned, presence=Presence.FAILED, actual=D1)
    assert directory_to_report(placement) == D1


def test_replica_in_creation_is_not_reported_yet() -> None:
    placement = Placement(assigned=UNASSIGNED, presence=Presence.IN_CREATION)
    assert directory_to_report(placement) is None
