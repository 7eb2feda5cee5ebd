"""The election as a table: the states of a voter and the events that move it from one to the next.

                     ELECTED          RESIGNED
    UNATTACHED       LEADER           -
    LEADER           -                RESIGNED
    RESIGNED         LEADER           -

A sole voter grants its own vote, so the states of a candidate take no time and are left out. Each
election raises the epoch by one. A pair that is not in the table raises `KeyError`.

Source: `org.apache.kafka.raft.QuorumState`, KIP-595.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch


class Role(Enum):
    """The state of a voter."""

    UNATTACHED = auto()
    LEADER = auto()
    RESIGNED = auto()


class Event(Enum):
    """Events in the life of a voter."""

    ELECTED = auto()
    RESIGNED = auto()


TRANSITIONS = {
    (Role.UNATTACHED, Event.ELECTED): Role.LEADER,
    (Role.LEADER, Event.RESIGNED): Role.RESIGNED,
    (Role.RESIGNED, Event.ELECTED): Role.LEADER,
}


class SoleVoter(msgspec.Struct, frozen=True, kw_only=True):
    """A sole voter.

    Attributes:
        epoch: The highest leader epoch that the voter knows; 0 before the first.
    """

    node_id: BrokerId
    epoch: LeaderEpoch
    role: Role = Role.UNATTACHED

    def handle(self, event: Event) -> SoleVoter:
        """Return the voter after an event."""
        role = TRANSITIONS[self.role, event]
        epoch = LeaderEpoch(self.epoch + (event is Event.ELECTED))
        return SoleVoter(node_id=self.node_id, epoch=epoch, role=role)

    def leads_in(self, epoch: LeaderEpoch) -> bool:
        """Return whether the voter leads in an epoch."""
        return self.role is Role.LEADER and self.epoch == epoch
