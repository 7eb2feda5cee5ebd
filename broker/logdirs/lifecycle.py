"""States of a log directory, and what moves it from one to the next.

    INITIAL --LOAD--> RECOVERING --LOADED--> ONLINE
       |                  |                    |
       +------------------+------ FAIL --------+--> OFFLINE

A directory is *usable* in every state but OFFLINE: it is registered with the controller before its
logs are loaded. OFFLINE is final until the process ends; its cause is kept beside it. A pair of
state and event that the table does not have is a programming error.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class LogDirState(Enum):
    """Where a log directory is in its life."""

    INITIAL = auto()
    """Its `meta.properties` is known, its logs are not."""
    RECOVERING = auto()
    """Its logs are being loaded."""
    ONLINE = auto()
    """Its replicas serve."""
    OFFLINE = auto()
    """It failed; nothing touches it any more."""

    @property
    def is_usable(self) -> bool:
        """Whether the directory counts as online for the controller and for new replicas."""
        return self is not LogDirState.OFFLINE


class LogDirEvent(Enum):
    """What happens to a log directory."""

    LOAD = auto()
    LOADED = auto()
    FAIL = auto()


TRANSITIONS: Mapping[tuple[LogDirState, LogDirEvent], LogDirState] = {
    (LogDirState.INITIAL, LogDirEvent.LOAD): LogDirState.RECOVERING,
    (LogDirState.RECOVERING, LogDirEvent.LOADED): LogDirState.ONLINE,
    (LogDirState.INITIAL, LogDirEvent.FAIL): LogDirState.OFFLINE,
    (LogDirState.RECOVERING, LogDirEvent.FAIL): LogDirState.OFFLINE,
    (LogDirState.ONLINE, LogDirEvent.FAIL): LogDirState.OFFLINE,
}


def next_state(state: LogDirState, event: LogDirEvent) -> LogDirState:
    """Return the state after an event.

    Raises:
        AssertionError: this event cannot happen in this state.
    """
    if (state, event) not in TRANSITIONS:
        raise AssertionError(f"log directory in state {state.name} cannot {event.name}")
    return TRANSITIONS[state, event]
