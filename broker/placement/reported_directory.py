"""Which directory of one replica the broker reports to the controller.

The controller elects leaders by what it knows of directories. So it must know the truth, also that
there is no directory to name:

    replica is online, in the assigned directory       nothing to report
    replica is online, in another directory            that directory
    recreated, but the last one in the ISR             LOST, until another replica leads
    failed with its directory, though the controller
      counts it as online                              that directory
    failed alone, though the controller counts it as
      online                                           LOST
    not created because a dead directory may have it,
      though the controller counts it as online        LOST

LOST means "in no directory that can be named": the controller then removes the replica from ISR and
leadership. It does the same for a directory that is not online. The name of the directory that
failed says more than LOST: when the directory returns, the replica has what it had. A recreated
replica that is the last member of its ISR has none of the records that the ISR promises. If it led,
the other replicas would truncate their logs to its empty one. The same holds for an eligible leader
replica and for the last known leader. A replica without others serves its empty log.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from jbodlab.storage.log.log_state import LogState
from jbodlab.vocabulary.directory_id import LOST
from jbodlab.vocabulary.ids import DirectoryId


class Presence(Enum):
    """How much there is of a replica on this broker."""

    ONLINE = auto()
    """Its log can be used."""
    IN_CREATION = auto()
    """Its log is being created; what it will be nobody knows yet."""
    ABSENT = auto()
    """It was not created: it may lie in a directory that is offline."""
    FAILED = auto()
    """Its log, or the directory of that, has failed."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """This broker's knowledge of where one of its replicas is.

    Attributes:
        assigned: Its directory in the metadata.
        presence: How much there is of it here.
        actual: The directory of its log; of a failed replica, the directory that failed with it.
        counts_as_online: Whether the controller takes the assigned directory for online.
        is_empty_last_in_sync: Whether it was made anew although it was the last one in the ISR of
            several replicas, and still is.
    """

    assigned: DirectoryId
    presence: Presence
    actual: DirectoryId | None = None
    counts_as_online: bool = True
    is_empty_last_in_sync: bool = False


def directory_to_report(placement: Placement) -> DirectoryId | None:
    """Return what the controller is to be told; None if it knows, or there is nothing to say."""
    match placement.presence:
        case Presence.ONLINE:
            wanted = LOST if placement.is_empty_last_in_sync else placement.actual
            return None if wanted == placement.assigned else wanted
        case Presence.ABSENT | Presence.FAILED:
            return (placement.actual or LOST) if placement.counts_as_online else None
        case Presence.IN_CREATION:
            return None


def was_made_anew(state: LogState, assigned: DirectoryId) -> bool:
    """Return whether an earlier process reported a log that was found as LOST: it made it anew."""
    return state.end_offset == 0 and assigned == LOST
