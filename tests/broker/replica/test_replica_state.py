"""The states of a replica, and what leads from one to another."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.replica.replica_state import (
    TRANSITIONS,
    Absent,
    Creating,
    Deleted,
    Following,
    Leading,
    Offline,
    ReplicaEvent,
    check_transition,
)

STATES = (Creating, Absent, Following, Leading, Offline, Deleted)
OFFLINE = Offline(Path("/data/d1"))


def test_nothing_leads_out_of_deleted_and_everything_else_can_be_removed() -> None:
    assert not [key for key in TRANSITIONS if key[0] is Deleted]
    for state in STATES[:-1]:
        assert TRANSITIONS[state, ReplicaEvent.REMOVED] == (Deleted,)


def test_a_log_comes_only_where_none_is_and_a_role_only_where_one_is() -> None:
    with_log = {state for state, event in TRANSITIONS if event is ReplicaEvent.ROLE_GIVEN}
    without = {state for state, event in TRANSITIONS if event is ReplicaEvent.LOG_THERE}
    assert with_log == {Following, Leading}
    assert without == {Creating, Absent}


def test_every_state_can_be_reached() -> None:
    reached = {Creating}
    for _ in STATES:
        reached |= {
            after
            for (state, _), outcome in TRANSITIONS.items()
            if state in reached
            for after in outcome
        }
    assert reached == set(STATES)


def test_a_transition_that_is_not_in_the_table_is_a_fault() -> None:
    check_transition(OFFLINE, ReplicaEvent.MAY_RETURN, Creating())
    for event, after in (
        (ReplicaEvent.LOG_THERE, Creating()),
        (ReplicaEvent.MAY_RETURN, Absent()),
        (ReplicaEvent.FAILED, OFFLINE),
    ):
        with pytest.raises(AssertionError, match=f"{event.name} does not lead from Offline"):
            check_transition(OFFLINE, event, after)
