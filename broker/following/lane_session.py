"""The follower's side of a fetch session: what the leader knows, and what it does not know yet.

A session begins with a request that names everything. Later requests name the changes: new
replicas, replicas whose offset or leader epoch changed, and removed ones. See `fetch_sessions` for
the leader's side.

Source: KIP-227, `org.apache.kafka.clients.FetchSessionHandler`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from jbodlab.vocabulary.ids import TopicIdPartition

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = (1 << 31) - 1
NO_SESSION_EPOCH = -1


class SessionReplica(NamedTuple):
    """A replica in the session, and from where on it was asked for last."""

    partition: Partition
    log: PartitionLog
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int

    @classmethod
    def now(cls, partition: Partition, log: PartitionLog) -> SessionReplica:
        """Ask from the end of the log."""
        return cls(
            partition,
            log,
            partition.registration.leader_epoch,
            log.end_offset,
            log.epochs.latest_epoch,
            log.start_offset,
        )

    @property
    def is_as_asked(self) -> bool:
        """Whether the log still ends, and begins, where it did."""
        log = self.log
        return (
            self.fetch_offset == log.end_offset
            and self.last_fetched_epoch == log.epochs.latest_epoch
            and self.log_start_offset == log.start_offset
        )


class LaneSession:
    """One leader's knowledge of one lane."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self._known: dict[TopicIdPartition, SessionReplica] = {}
        self._forgotten: dict[TopicIdPartition, None] = {}

    @classmethod
    def none(cls) -> LaneSession:
        """Return what a request says that belongs to no session."""
        session = cls()
        session.epoch = NO_SESSION_EPOCH
        return session

    @property
    def is_begun(self) -> bool:
        """Whether the next request may name changes only."""
        return self.epoch != FIRST_EPOCH

    @property
    def is_empty(self) -> bool:
        """Whether the leader knows of no replica that is still wanted."""
        return not self._known

    @property
    def known(self) -> Mapping[TopicIdPartition, SessionReplica]:
        """The replicas in the session."""
        return self._known

    @property
    def forgotten(self) -> tuple[TopicIdPartition, ...]:
        """Partitions that the next request must take out of the session."""
        return tuple(self._forgotten)

    def ask(self, asked: SessionReplica) -> None:
        """Name a replica in the next request."""
        key = asked.partition.key
        self._known[key] = asked
        self._forgotten.pop(key, None)

    def forget(self, partition: Partition) -> None:
        """Take a replica out with the next request."""
        key = partition.key
        if self._known.pop(key, None) is not None:
            self._forgotten[key] = None

    def sent(self) -> None:
        """The request is on its way."""
        self._forgotten.clear()

    def answered(self, session_id: int) -> None:
        """The leader has understood; a leader without sessions answers the id 0."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self.session_id = session_id
        self.epoch = self.epoch % LAST_EPOCH + 1

    def reset(self) -> None:
        """Begin anew; the id stays, so that the leader can close the old session."""
        self.epoch = FIRST_EPOCH
        self._known.clear()
        self._forgotten.clear()
