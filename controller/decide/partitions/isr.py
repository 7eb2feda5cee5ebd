"""AlterPartition: the leader of a partition proposes a new ISR.

Source: `ReplicationControlManager.alterPartition`, KIP-497, KIP-841, KIP-903.
"""

from __future__ import annotations

from controller.decide.partitions.directories import with_state
from controller.decide.partitions.partition_change import Wanted, election_for, partition_change
from controller.decide.state import (
    ControllerResult,
    ControllerState,
    PartitionEntry,
    RecordList,
    default_directory,
    leader_test,
)
from jbodlab.controller_api.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrChange,
    IsrChangeResult,
)
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.topic_records import RECOVERED, RECOVERING
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import UNKNOWN_BROKER_EPOCH, BrokerId, TopicIdPartition


def alter_partition(
    request: AlterPartitionRequest, state: ControllerState, now_ms: int
) -> ControllerResult[AlterPartitionResponse]:
    """Accept or refuse each proposed ISR; a partition named twice sees its own first change."""
    registration = state.image.cluster.brokers.get(request.broker_id)
    if registration is None or registration.epoch != request.broker_epoch:
        return ControllerResult(
            response=AlterPartitionResponse(
                error_code=ErrorCode.STALE_BROKER_EPOCH,
                error_message=f"broker {request.broker_id} does not have epoch "
                f"{request.broker_epoch}",
            )
        )
    records = RecordList(state.metadata_version)
    changed: dict[TopicIdPartition, PartitionEntry] = {}
    results = []
    for change in request.changes:
        try:
            partition = _find(change, state, changed)
            _check_leader(request.broker_id, change, partition.state)
            _check_isr(change, partition.state)
            _check_members(change, partition.state, state)
            partition, code = _changed(change, partition, state, records)
            changed[TopicIdPartition(change.topic_id, change.partition)] = partition
            results.append(_result(change, partition.state, code))
        except KafkaError as error:
            results.append(
                IsrChangeResult(
                    topic_id=change.topic_id, partition=change.partition, error_code=error.code
                )
            )
    return ControllerResult(
        response=AlterPartitionResponse(results=tuple(results)), records=records.as_tuple()
    )


def _find(
    change: IsrChange, state: ControllerState, changed: dict[TopicIdPartition, PartitionEntry]
) -> PartitionEntry:
    key = TopicIdPartition(change.topic_id, change.partition)
    if key in changed:
        return changed[key]
    topic = state.image.topics.by_id.get(change.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(change.partition)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return PartitionEntry(topic.name, topic.topic_id, change.partition, partition)


def _check_leader(sender: BrokerId, change: IsrChange, known: PartitionRegistration) -> None:
    if change.leader_epoch > known.leader_epoch or change.partition_epoch > known.partition_epoch:
        # The leader knows more than this controller: it must have been told by another one.
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if change.leader_epoch < known.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if sender != known.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if change.partition_epoch < known.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_isr(change: IsrChange, known: PartitionRegistration) -> None:
    members = [member.broker_id for member in change.new_isr]
    is_recovering = change.leader_recovery_state == RECOVERING
    if (
        len(set(members)) != len(members)
        or any(member not in known.replicas for member in members)
        or known.leader not in members
        or change.leader_recovery_state not in (RECOVERED, RECOVERING)
        or (is_recovering and len(members) > 1)
        or (is_recovering and known.leader_recovery_state == RECOVERED)
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _check_members(change: IsrChange, known: PartitionRegistration, state: ControllerState) -> None:
    degraded = state.degraded
    for member in change.new_isr:
        registration = state.image.cluster.brokers.get(member.broker_id)
        if (
            registration is None
            or not registration.active
            or member.broker_epoch not in (UNKNOWN_BROKER_EPOCH, registration.epoch)
            # A replica in a failed directory is not in sync, whatever the leader believes.
            or not registration.directory_is_online(known.directory(member.broker_id))
            # A follower in a full directory has paused: it is in sync for this moment only.
            or (
                member.broker_id not in known.isr
                and degraded.is_full(member.broker_id, known.directory(member.broker_id))
            )
        ):
            raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)


def _changed(
    change: IsrChange, partition: PartitionEntry, state: ControllerState, records: RecordList
) -> tuple[PartitionEntry, ErrorCode]:
    """Append the record of an accepted change; returns the partition after it."""
    brokers = state.image.cluster.brokers
    record = partition_change(
        partition,
        Wanted(
            isr=tuple(member.broker_id for member in change.new_isr),
            leader_recovery_state=change.leader_recovery_state,
        ),
        may_lead=leader_test(state.image.cluster),
        metadata_version=state.metadata_version,
        degraded=state.degraded,
        min_isr=state.min_isr(partition.topic),
        election=election_for(state.unclean_election_enabled(partition.topic)),
        new_directory=lambda broker_id: default_directory(
            brokers.get(broker_id), state.metadata_version
        ),
    )
    if record is None:
        return partition, ErrorCode.NONE
    records.add(record)
    after = with_state(partition, partition.state.merge(record))
    moved = after.state.leader != partition.state.leader
    return after, ErrorCode.NEW_LEADER_ELECTED if moved else ErrorCode.NONE


def _result(change: IsrChange, known: PartitionRegistration, code: ErrorCode) -> IsrChangeResult:
    if code is not ErrorCode.NONE:
        return IsrChangeResult(
            topic_id=change.topic_id, partition=change.partition, error_code=code
        )
    return IsrChangeResult(
        topic_id=change.topic_id,
        partition=change.partition,
        leader=known.leader,
        leader_epoch=known.leader_epoch,
        isr=known.isr,
        leader_recovery_state=known.leader_recovery_state,
        partition_epoch=known.partition_epoch,
    )
