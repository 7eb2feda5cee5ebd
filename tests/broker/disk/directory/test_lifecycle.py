from __future__ import annotations

import pytest

from broker.disk.directory.lifecycle import LogDirEvent, LogDirState, next_state


def test_a_directory_is_usable_until_it_failed() -> None:
    assert [state for state in LogDirState if not state.is_usable] == [LogDirState.OFFLINE]


@pytest.mark.parametrize("state", [state for state in LogDirState if state.is_usable])
def test_a_directory_can_fail_in_every_usable_state(state: LogDirState) -> None:
    assert next_state(state, LogDirEvent.FAIL) is LogDirState.OFFLINE


@pytest.mark.parametrize(
    "event", [event for event in LogDirEvent if event is not LogDirEvent.REVIVE]
)
def test_nothing_but_a_revival_leads_out_of_offline(event: LogDirEvent) -> None:
    with pytest.raises(AssertionError):
        next_state(LogDirState.OFFLINE, event)


def test_logs_are_loaded_once() -> None:
    state = next_state(LogDirState.INITIAL, LogDirEvent.LOAD)
    assert state is LogDirState.RECOVERING
    state = next_state(state, LogDirEvent.LOADED)
    assert state is LogDirState.ONLINE
    with pytest.raises(AssertionError):
        next_state(state, LogDirEvent.LOAD)


def test_only_a_directory_that_failed_can_be_revived_and_then_loads_its_logs() -> None:
    for state in LogDirState:
        if state.is_usable:
            with pytest.raises(AssertionError):
                next_state(state, LogDirEvent.REVIVE)
    revived = next_state(LogDirState.OFFLINE, LogDirEvent.REVIVE)
    assert next_state(revived, LogDirEvent.LOADED) is LogDirState.ONLINE
