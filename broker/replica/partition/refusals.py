"""Errors for clients that ask a replica for something that it does not do."""

from __future__ import annotations

from collections.abc import Sequence

from broker.replica.replica_state import Deleted, Offline, ReplicaState
from broker.replica.waiting import LeaderHint
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, TopicPartition


def refusal(
    state: ReplicaState, registration: PartitionRegistration, broker_id: BrokerId
) -> ErrorCode:
    """Return the code for clients that take a replica for the leader."""
    if isinstance(state, Deleted):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # Once the metadata names another leader, the client is better served with that one than with
    # the news that a disk here is dead.
    elsewhere = registration.leader not in (NO_LEADER, broker_id)
    if isinstance(state, Offline) and not elsewhere:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def check_epoch(named: int, known: int) -> None:
    """Check the leader epoch that a request names; -1 is not checked.

    Raises:
        KafkaError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
    """
    if named in (-1, known):
        return
    if named < known:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)


def leader_hint(registration: PartitionRegistration) -> LeaderHint | None:
    """Return who leads instead; None if nobody does."""
    if registration.leader == NO_LEADER:
        return None
    return LeaderHint(leader=registration.leader, leader_epoch=registration.leader_epoch)


def check_isr(isr: Sequence[BrokerId], min_isr: int, topic_partition: TopicPartition) -> None:
    """Check that enough replicas are in sync for acks=all.

    Raises:
        KafkaError: NOT_ENOUGH_REPLICAS.
    """
    if len(isr) < min_isr:
        raise KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the size of the current ISR {list(isr)} is insufficient to satisfy the min.isr "
            f"requirement of {min_isr} for partition {topic_partition}",
        )
