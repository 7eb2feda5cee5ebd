"""Action for a replica whose assigned and real directories may differ: KIP-858's table.

    replica is in the assigned directory                      nothing
    a future replica is in the assigned directory             promote it
    replica is in another online directory                    report where it is
    nowhere, no directory chosen yet (UNASSIGNED)             create anywhere, report
    nowhere, assigned to an online directory                  create it there
    nowhere, assigned elsewhere, a directory is offline       nothing: it may be in that one
    nowhere, assigned elsewhere, all directories online       create anywhere, report

"Assigned elsewhere" is an unknown or offline directory, MIGRATING or LOST.
"""

from __future__ import annotations

from collections.abc import Set
from enum import Enum, auto

import msgspec

from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.ids import DirectoryId


class Action(Enum):
    """The decision of `reconcile`."""

    NONE = auto()
    REPORT = auto()
    """Tell the controller where the replica really is."""
    CREATE = auto()
    """Create it in the assigned directory."""
    CREATE_ANYWHERE = auto()
    """Create it in the directory of this broker's choice, and report that."""
    PROMOTE_FUTURE = auto()
    """Make the future replica, which is where the metadata wants it, the current one."""


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """State of one replica.

    Attributes:
        assigned: Its directory in the metadata.
        actual: The online directory that holds it; None if none does.
        future: The online directory that holds a future replica of it; None if none does.
        any_offline: Whether any configured directory of this broker is offline.
    """

    assigned: DirectoryId
    actual: DirectoryId | None = None
    future: DirectoryId | None = None
    any_offline: bool = False


def reconcile(facts: ReplicaFacts, online: Set[DirectoryId]) -> Action:
    """Decide the next action for one replica, after KIP-858, "Replica management".

    Args:
        facts: State of the replica.
        online: Ids of the directories this broker can still use; never empty.

    Returns:
        The action; `Action.NONE` when the replica is where it should be, or when it may be sitting
        in an offline directory and must not be created a second time elsewhere.
    """
    assert online
    if facts.actual is not None and facts.actual == facts.assigned:
        return Action.NONE
    if facts.future is not None and facts.future == facts.assigned:
        return Action.PROMOTE_FUTURE
    if facts.actual is not None:
        return Action.REPORT
    if facts.assigned == UNASSIGNED:
        return Action.CREATE_ANYWHERE
    if facts.assigned in online:
        return Action.CREATE
    # The assigned directory is unknown or offline. Creating the replica elsewhere would fill
    # the surviving disks with copies of data that comes back with the repaired one.
    return Action.NONE if facts.any_offline else Action.CREATE_ANYWHERE
