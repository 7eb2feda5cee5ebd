"""Tells clients that were sent away who leads now (KIP-951)."""

from __future__ import annotations

from broker.metadata.metadata_cache import MetadataCache
from broker.replica.waiting import AppendResult, LeaderHint
from jbodlab.kafka_wire.leader_hints import CurrentLeader, NodeEndpoint
from jbodlab.kafka_wire.produce_response import ProducedPartition
from jbodlab.server.partition_errors import told
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, TopicPartition

REDIRECTING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        # Not in KIP-951: a failed directory moves the leader just the same.
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which a client looks for another leader."""


class LeaderHints:
    """Collects the hints of one response, and the addresses they refer to."""

    def __init__(self, cache: MetadataCache, broker_id: BrokerId, listener_name: str) -> None:
        self._cache = cache
        self._broker_id = broker_id
        self._listener_name = listener_name
        self.endpoints: list[NodeEndpoint] = []
        """Addresses of all leaders named so far."""

    def hint(
        self, partition: TopicPartition, error_code: ErrorCode, known: LeaderHint | None
    ) -> CurrentLeader | None:
        """Return the leader of a partition if it is another broker with a known address.

        Args:
            partition: The partition that was asked for.
            error_code: Error of the partition in the response.
            known: The replica manager's hint; the metadata cache is asked without it.
        """
        if error_code not in REDIRECTING:
            return None
        leader = self._from_cache(partition) if known is None else known
        if leader is None or leader.leader in (NO_LEADER, self._broker_id):
            return None
        if all(leader.leader != each.node_id for each in self.endpoints):
            endpoint = self._endpoint(leader.leader)
            if endpoint is None:
                return None
            self.endpoints.append(endpoint)
        return CurrentLeader(leader.leader, leader.leader_epoch)

    def produced(self, result: AppendResult) -> ProducedPartition:
        """Return the response for a partition to which something was to be appended."""
        partition = result.topic_partition
        return ProducedPartition(
            partition.partition,
            told(result.error_code),
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
            result.error_message,
            self.hint(partition, result.error_code, result.leader_hint),
        )

    def _from_cache(self, partition: TopicPartition) -> LeaderHint | None:
        topic = self._cache.image.topics.by_name.get(partition.topic)
        state = None if topic is None else topic.partitions.get(partition.partition)
        if state is None:
            return None
        return LeaderHint(leader=state.leader, leader_epoch=state.leader_epoch)

    def _endpoint(self, leader: BrokerId) -> NodeEndpoint | None:
        for broker in self._cache.live_brokers(self._listener_name):
            if broker.id == leader:
                return NodeEndpoint(broker.id, broker.host, broker.port, broker.rack)
        return None
