"""The states of a replica, and the transitions between them.

    Creating     the log is being created: requests wait for it
    Absent       no log, and none is being created: an offline directory may contain it
    Following    the log is there, and another broker leads, or none does
    Leading      the log is there, and this broker leads
    Offline      the log was there, or should have been; its directory or the log itself failed
    Deleted      the replica is no longer here; the end

A state is a value with its data: it has a log only if there is one, and leader data only while the
replica leads. `TRANSITIONS` contains all transitions; any other one is a programming error.

The metadata decide whether a replica with a log is Following or Leading. Creating and Absent know
their role from the metadata as well, so requests to a leader wait or are redirected.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from pathlib import Path
from typing import ClassVar

import msgspec

from broker.replica.leading import LeaderState
from broker.replica.log import PartitionLog


class Creating(msgspec.Struct, frozen=True):
    """Its log is being made."""

    log: ClassVar[None] = None
    leader: ClassVar[None] = None


class Absent(msgspec.Struct, frozen=True):
    """There is no log, and none is being made."""

    log: ClassVar[None] = None
    leader: ClassVar[None] = None


class Following(msgspec.Struct, frozen=True):
    """It has a log, and does not lead."""

    log: PartitionLog
    leader: ClassVar[None] = None


class Leading(msgspec.Struct, frozen=True):
    """It has a log, and leads in the epoch of `leader`."""

    log: PartitionLog
    leader: LeaderState


class Offline(msgspec.Struct, frozen=True):
    """Its directory or its log failed.

    Attributes:
        held_in: Path of the directory that held the log, if it had one.
    """

    held_in: Path | None
    log: ClassVar[None] = None
    leader: ClassVar[None] = None


class Deleted(msgspec.Struct, frozen=True):
    """The replica is no longer here."""

    log: ClassVar[None] = None
    leader: ClassVar[None] = None


ReplicaState = Creating | Absent | Following | Leading | Offline | Deleted


class ReplicaEvent(Enum):
    """Events in the life of a replica."""

    CREATION_BEGUN = auto()
    """A log is being made for it."""
    NO_DIRECTORY = auto()
    """None may be made: it may lie in an offline directory, or no directory takes it."""
    LOG_THERE = auto()
    """A log was found or made."""
    ROLE_GIVEN = auto()
    """The metadata has a new leader epoch."""
    FAILED = auto()
    """The directory or the log failed, or no directory could make one."""
    MAY_RETURN = auto()
    """The directory is back, or may be done without."""
    REMOVED = auto()
    """The topic was deleted, or the partition lives without this replica."""


TRANSITIONS: Mapping[tuple[type[ReplicaState], ReplicaEvent], tuple[type[ReplicaState], ...]] = {
    (Creating, ReplicaEvent.CREATION_BEGUN): (Creating,),
    (Creating, ReplicaEvent.NO_DIRECTORY): (Absent,),
    (Creating, ReplicaEvent.LOG_THERE): (Following, Leading),
    (Creating, ReplicaEvent.FAILED): (Offline,),
    (Creating, ReplicaEvent.REMOVED): (Deleted,),
    (Absent, ReplicaEvent.CREATION_BEGUN): (Creating,),
    (Absent, ReplicaEvent.NO_DIRECTORY): (Absent,),
    (Absent, ReplicaEvent.LOG_THERE): (Following, Leading),
    (Absent, ReplicaEvent.FAILED): (Offline,),
    (Absent, ReplicaEvent.MAY_RETURN): (Creating,),
    (Absent, ReplicaEvent.REMOVED): (Deleted,),
    (Following, ReplicaEvent.ROLE_GIVEN): (Following, Leading),
    (Following, ReplicaEvent.FAILED): (Offline,),
    (Following, ReplicaEvent.REMOVED): (Deleted,),
    (Leading, ReplicaEvent.ROLE_GIVEN): (Following, Leading),
    (Leading, ReplicaEvent.FAILED): (Offline,),
    (Leading, ReplicaEvent.REMOVED): (Deleted,),
    (Offline, ReplicaEvent.MAY_RETURN): (Creating,),
    (Offline, ReplicaEvent.REMOVED): (Deleted,),
}


def check_transition(before: ReplicaState, event: ReplicaEvent, after: ReplicaState) -> None:
    """Raise AssertionError unless the table has this transition."""
    if type(after) not in TRANSITIONS.get((type(before), event), ()):
        raise AssertionError(
            f"{event.name} does not lead from {type(before).__name__} to {type(after).__name__}"
        )


class DataLoss(Enum):
    """Whether an empty log replaced one that the ISR relied on.

    The old log may be on a disk that is gone. The state ends as soon as the ISR names another
    replica, or another log is opened. Where no replica is in sync, what was reported stays so until
    another one leads, unless all others are lost as well.
    """

    NO = auto()
    SUSPECTED = auto()
    """The ISR is this replica alone, and its log is new, or was found to lack records."""
    REPORTED = auto()
    """Others could have been in sync: the controller is told that the log is lost."""
