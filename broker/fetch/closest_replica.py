"""Fetch from the closest replica: which replica a consumer should rather read from (KIP-392).

A consumer tells its rack. The leader names a replica in that rack; the consumer turns to it, and
comes back when that one has an error for it. A follower serves consumers while it is in the ISR, up
to the high watermark as it knows it. Kafka's serves them always, those too whom nobody sent there:
they would stay with a replica that has fallen behind until they ask for the metadata again.

Source: `org.apache.kafka.common.replica.RackAwareReplicaSelector`,
`kafka.server.ReplicaManager.findPreferredReadReplica`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.fetch.fetch_requests import FetchEntry, FetchParams
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from broker.replica.replica_state import Following
from jbodlab.vocabulary.ids import BrokerId


class ReplicaView(NamedTuple):
    """An in-sync replica that may be read from."""

    broker_id: BrokerId
    rack: str | None
    end_offset: int


def in_rack(rack: str, leader: ReplicaView, followers: Sequence[ReplicaView]) -> BrokerId | None:
    """Return the follower to read from in a rack; None where the leader is as good."""
    if leader.rack == rack:
        return None
    near = [each for each in followers if each.rack == rack]
    return max(near, key=lambda each: each.end_offset).broker_id if near else None


class ClosestReplica:
    """Chooses for the consumers of led partitions.

    Args:
        rack_of: Returns the rack of a registered broker.
    """

    def __init__(self, rack_of: Callable[[BrokerId], str | None]) -> None:
        self._rack_of = rack_of

    def of(self, partition: Partition, entry: FetchEntry, rack: str) -> BrokerId | None:
        """Return the follower that a consumer in a rack should read from; None for the leader."""
        leader, log = partition.leader, partition.log
        if leader is None or log is None:
            return None
        followers = [
            ReplicaView(broker_id, self._rack_of(broker_id), known.end_offset)
            for broker_id, known in leader.followers.items()
            # The others may lag, or cannot be reached.
            if broker_id in leader.isr
            and broker_id in leader.joinable
            and known.end_offset >= entry.fetch_offset
        ]
        own = ReplicaView(leader.broker_id, self._rack_of(leader.broker_id), log.written_end)
        return in_rack(rack, own, followers)


def may_serve(params: FetchParams, partition: Partition, *, sends_consumers_away: bool) -> bool:
    """Return whether a reader is served by a follower too.

    Args:
        params: The reader's.
        partition: The replica.
        sends_consumers_away: Whether leaders name closer replicas.
    """
    if not params.any_replica or not params.is_consumer:
        return params.any_replica
    return sends_consumers_away and partition.broker_id in partition.registration.isr


def log_to_read(partition: Partition, *, any_replica: bool) -> PartitionLog:
    """Return the log that a reader may read, who may ask followers too or not.

    Raises:
        KafkaError: there is none, or the reader has to ask the leader.
    """
    state = partition.state
    if any_replica and isinstance(state, Following):
        return state.log
    _, log = partition.leader_log()
    return log
