"""The states of a move of one replica from a log directory to another of the same broker.

    COPYING  ->  ASSIGNMENT_QUEUED  ->  ASSIGNMENT_ACCEPTED  ->  SWAPPED

How to think about it: a copy, the *future replica*, is built in the target beside the current one,
which serves as before. When it has nearly caught up, the controller is asked to record the target
as the replica's directory. Only when it has, appends are held for a moment, the last bytes are
copied, and the future replica becomes the current one. So at every moment the metadata names a
directory whose failure the controller must hear of: until the acceptance the source, where the
records are; afterwards the target, and if the source fails before the swap, the source again,
which is offline by then, so that another replica is elected.

That is the one rule for everything that goes wrong: once the assignment was asked for, and as long
as there was no swap, it is asked back.

    SUSPENDED    the source failed; the copy is kept, and the move goes on if the source comes back
    CANCELLED    by an operator, by another target, or as the replica is deleted: the copy goes
    FAILED       the target failed; the copy stays on it, untouched

Source: KIP-858, "Intra-broker replica movement"; `kafka.server.ReplicaAlterLogDirsThread`. There
the copy of a failed source is of no use until a restart.
"""

from __future__ import annotations

from enum import Enum, auto


class MoveState(Enum):
    """See the module's text."""

    COPYING = auto()
    ASSIGNMENT_QUEUED = auto()
    ASSIGNMENT_ACCEPTED = auto()
    SUSPENDED = auto()
    SWAPPED = auto()
    CANCELLED = auto()
    FAILED = auto()

    @property
    def is_over(self) -> bool:
        """Whether nothing can happen to the move any more."""
        return self in (MoveState.SWAPPED, MoveState.CANCELLED, MoveState.FAILED)

    @property
    def is_promised(self) -> bool:
        """Whether the controller may take the target for the directory of the replica."""
        return self in (MoveState.ASSIGNMENT_QUEUED, MoveState.ASSIGNMENT_ACCEPTED)


class MoveEvent(Enum):
    """Events in the life of a move."""

    CAUGHT_UP = auto()
    """The copy lacks no more than what came in the last moments."""
    ACCEPTED = auto()
    """The controller has recorded the target."""
    SWAPPED = auto()
    """The future replica is the current one."""
    CANCEL = auto()
    """It is not wanted any more."""
    NO_ROOM = auto()
    """The target takes no more records; it is waited until it does."""
    TARGET_FAILED = auto()
    """The target directory, or the copy in it, is lost."""
    SOURCE_FAILED = auto()
    """The current replica went offline."""
    SOURCE_BACK = auto()
    """It is there again."""


class MoveInstruction(Enum):
    """Instructions to the shell of a move."""

    ASK_FOR_TARGET = auto()
    """Ask the controller to record the target."""
    ASK_BACK = auto()
    """Ask it to record the source again."""
    PROMOTE = auto()
    """Hold appends, copy what is left, and swap."""
    RETIRE_SOURCE = auto()
    """Have the former current replica removed."""
    KEEP_COPY = auto()
    """Stop to copy; the copy stays what it is."""
    DELETE_COPY = auto()
    """Stop to copy, and have the copy removed."""
    FORGET_COPY = auto()
    """Stop to copy, and touch nothing in the target any more."""


_State, _Event, _Do = MoveState, MoveEvent, MoveInstruction
Transition = tuple[MoveState, tuple[MoveInstruction, ...]]

TRANSITIONS: dict[tuple[MoveState, MoveEvent], Transition] = {
    (_State.COPYING, _Event.CAUGHT_UP): (_State.ASSIGNMENT_QUEUED, (_Do.ASK_FOR_TARGET,)),
    (_State.COPYING, _Event.NO_ROOM): (_State.COPYING, ()),
    (_State.COPYING, _Event.CANCEL): (_State.CANCELLED, (_Do.DELETE_COPY,)),
    (_State.COPYING, _Event.TARGET_FAILED): (_State.FAILED, (_Do.FORGET_COPY,)),
    (_State.COPYING, _Event.SOURCE_FAILED): (_State.SUSPENDED, (_Do.KEEP_COPY,)),
    (_State.ASSIGNMENT_QUEUED, _Event.CAUGHT_UP): (_State.ASSIGNMENT_QUEUED, ()),
    (_State.ASSIGNMENT_QUEUED, _Event.ACCEPTED): (_State.ASSIGNMENT_ACCEPTED, (_Do.PROMOTE,)),
    (_State.ASSIGNMENT_ACCEPTED, _Event.CAUGHT_UP): (
        _State.ASSIGNMENT_ACCEPTED,
        (_Do.PROMOTE,),
    ),
    (_State.ASSIGNMENT_ACCEPTED, _Event.ACCEPTED): (_State.ASSIGNMENT_ACCEPTED, ()),
    (_State.ASSIGNMENT_ACCEPTED, _Event.SWAPPED): (_State.SWAPPED, (_Do.RETIRE_SOURCE,)),
    (_State.SUSPENDED, _Event.SOURCE_BACK): (_State.COPYING, ()),
    (_State.SUSPENDED, _Event.SOURCE_FAILED): (_State.SUSPENDED, ()),
    (_State.SUSPENDED, _Event.CANCEL): (_State.CANCELLED, (_Do.DELETE_COPY,)),
    (_State.SUSPENDED, _Event.TARGET_FAILED): (_State.FAILED, (_Do.FORGET_COPY,)),
}
for _promised in (_State.ASSIGNMENT_QUEUED, _State.ASSIGNMENT_ACCEPTED):
    TRANSITIONS |= {
        (_promised, _Event.NO_ROOM): (_State.COPYING, (_Do.ASK_BACK,)),
        (_promised, _Event.CANCEL): (_State.CANCELLED, (_Do.ASK_BACK, _Do.DELETE_COPY)),
        (_promised, _Event.TARGET_FAILED): (_State.FAILED, (_Do.ASK_BACK, _Do.FORGET_COPY)),
        (_promised, _Event.SOURCE_FAILED): (_State.SUSPENDED, (_Do.ASK_BACK, _Do.KEEP_COPY)),
    }

LATE = frozenset({_Event.CAUGHT_UP, _Event.ACCEPTED, _Event.NO_ROOM, _Event.SOURCE_BACK})
"""Events that may come when what they belong to is over; then they mean nothing."""


def next_step(state: MoveState, event: MoveEvent) -> Transition:
    """Return the state that follows an event, and what is to be done.

    Raises:
        AssertionError: the event cannot happen in this state.
    """
    found = TRANSITIONS.get((state, event))
    if found is not None:
        return found
    if event in LATE or (state.is_over and event is not _Event.SWAPPED):
        return state, ()
    raise AssertionError(f"{event.name} in state {state.name}")
