from __future__ import annotations

import pytest

from broker.placement.reconcile import Action, ReplicaFacts, reconcile
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from jbodlab.vocabulary.ids import DirectoryId
from tests.broker.disks import directory_id

D1, D2, UNKNOWN = directory_id(1), directory_id(2), directory_id(8)
ONLINE = frozenset({D1, D2})


def test_a_replica_in_its_assigned_directory_is_left_alone() -> None:
    assert reconcile(ReplicaFacts(assigned=D1, actual=D1), ONLINE) is Action.NONE


@pytest.mark.parametrize("assigned", [D2, UNASSIGNED, LOST, MIGRATING, UNKNOWN])
def test_a_replica_in_another_directory_is_reported(assigned: DirectoryId) -> None:
    for any_offline in (False, True):
        facts = ReplicaFacts(assigned=assigned, actual=D1, any_offline=any_offline)
        assert reconcile(facts, ONLINE) is Action.REPORT


def test_a_replica_without_a_directory_is_created_anywhere_even_if_some_are_offline() -> None:
    for any_offline in (False, True):
        facts = ReplicaFacts(assigned=UNASSIGNED, any_offline=any_offline)
        assert reconcile(facts, ONLINE) is Action.CREATE_ANYWHERE


def test_a_replica_assigned_to_an_online_directory_is_created_there() -> None:
    for any_offline in (False, True):
        facts = ReplicaFacts(assigned=D2, any_offline=any_offline)
        assert reconcile(facts, ONLINE) is Action.CREATE


@pytest.mark.parametrize("assigned", [LOST, MIGRATING, UNKNOWN])
def test_replica_in_an_offline_directory_is_not_created_again(assigned: DirectoryId) -> None:
    facts = ReplicaFacts(assigned=assigned, any_offline=True)
    assert reconcile(facts, ONLINE) is Action.NONE


@pytest.mark.parametrize("assigned", [LOST, MIGRATING, UNKNOWN])
def test_replica_of_a_removed_directory_is_created_again_when_none_is_offline(
    assigned: DirectoryId,
) -> None:
    assert reconcile(ReplicaFacts(assigned=assigned), ONLINE) is Action.CREATE_ANYWHERE


def test_a_future_replica_in_the_assigned_directory_is_promoted() -> None:
    assert reconcile(ReplicaFacts(assigned=D2, future=D2), ONLINE) is Action.PROMOTE_FUTURE
    facts = ReplicaFacts(assigned=D2, actual=D1, future=D2)
    assert reconcile(facts, ONLINE) is Action.PROMOTE_FUTURE


def test_a_future_replica_elsewhere_changes_nothing() -> None:
    assert reconcile(ReplicaFacts(assigned=D1, actual=D1, future=D2), ONLINE) is Action.NONE
    assert reconcile(ReplicaFacts(assigned=D1, future=D2), ONLINE) is Action.CREATE
