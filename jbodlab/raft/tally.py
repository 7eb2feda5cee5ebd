"""The count of one election's votes."""

from __future__ import annotations

import msgspec

from jbodlab.raft.instructions import Destination
from jbodlab.raft.voters import ReplicaKey


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Votes of one election, by node; the voters are those of its beginning."""

    majority: int
    voters: tuple[ReplicaKey, ...]
    granted: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()

    @property
    def unanswered(self) -> tuple[ReplicaKey, ...]:
        """Voters to ask."""
        answered = (*self.granted, *self.refused)
        return tuple(key for key in self.voters if key.node_id not in answered)

    @property
    def is_won(self) -> bool:
        """Whether a majority has granted its vote."""
        return len(self.granted) >= self.majority

    @property
    def is_lost(self) -> bool:
        """Whether a majority cannot be reached any more."""
        return len(self.granted) + len(self.unanswered) < self.majority

    def counted(self, node_id: Destination, *, is_granted: bool) -> Tally:
        """Return the tally with one more answer; answers of others than the voters do not count."""
        if isinstance(node_id, tuple) or node_id not in [key.node_id for key in self.unanswered]:
            return self
        if is_granted:
            return msgspec.structs.replace(self, granted=(*self.granted, node_id))
        return msgspec.structs.replace(self, refused=(*self.refused, node_id))
