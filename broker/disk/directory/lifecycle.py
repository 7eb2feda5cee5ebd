"""States of a log directory, and what moves it from one to the next.

    INITIAL --LOAD--> RECOVERING --LOADED--> ONLINE
       |                  |                    |
       +------------------+------ FAIL --------+--> OFFLINE --REVIVE--> RECOVERING

A directory is *usable* in every state but OFFLINE: it is registered with the controller before its
logs are loaded. The cause of OFFLINE is kept beside it. A pair of state and event that the table
does not have is a programming error.

REVIVE begins another life of the directory: another `LogDir` with a thread of its own goes on in
RECOVERING, and takes the place of the one that failed when its logs are loaded. Until then, and if
it fails, the directory is offline as it was. A `LogDir` that is OFFLINE stays so for ever; whoever
still holds one, or a file of it, holds something dead.
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
    """It failed; nothing touches it any more, unless it is revived."""

    @property
    def is_usable(self) -> bool:
        """Whether the directory counts as online for the controller and for new replicas."""
        return self is not LogDirState.OFFLINE


class LogDirEvent(Enum):
    """Events in the life of a log directory."""

    LOAD = auto()
    LOADED = auto()
    FAIL = auto()
    REVIVE = auto()
    """An operator repaired it, and it passed the checks of a start."""


TRANSITIONS: Mapping[tuple[LogDirState, LogDirEvent], LogDirState] = {
    (LogDirState.INITIAL, LogDirEvent.LOAD): LogDirState.RECOVERING,
    (LogDirState.RECOVERING, LogDirEvent.LOADED): LogDirState.ONLINE,
    (LogDirState.INITIAL, LogDirEvent.FAIL): LogDirState.OFFLINE,
    (LogDirState.RECOVERING, LogDirEvent.FAIL): LogDirState.OFFLINE,
    (LogDirState.ONLINE, LogDirEvent.FAIL): LogDirState.OFFLINE,
    (LogDirState.OFFLINE, LogDirEvent.REVIVE): LogDirState.RECOVERING,
}


def next_state(state: LogDirState, event: LogDirEvent) -> LogDirState:
    """Return the state after an event.

    Raises:
        AssertionError: this event cannot happen in this state.
    """
    if (state, event) not in TRANSITIONS:
        raise AssertionError(f"log directory in state {state.name} cannot {event.name}")
    return TRANSITIONS[state, event]
