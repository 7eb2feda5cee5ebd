"""AlterPartitionReassignments and ListPartitionReassignments: partitions move to other brokers.

A reassignment has no separate record. It is stored in three lists of the partition:

    replicas    those that stay, in the requested order, then those to be removed
    adding      those that are added; they count only when they are in sync
    removing    those that are removed when all others are in the ISR

So any change of the partition may complete it (`partition_change`), usually the leader's proposal
to add the last new replica to the ISR. A new target replaces the previous one, and a cancellation
removes the new replicas again.

Source: `ReplicationControlManager.alterPartitionReassignments`, `PartitionReassignmentReplicas`,
`PartitionReassignmentRevert`, KIP-455, KIP-860.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.decide.partitions.directories import with_state
from controller.decide.partitions.initial_partitions import check_assignment
from controller.decide.partitions.partition_change import Wanted, election_for, partition_change
from controller.decide.state import (
    ControllerResult,
    ControllerState,
    PartitionEntry,
    RecordList,
    default_directory,
    leader_test,
    partitions,
)
from jbodlab.controller_api.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
    PartitionToReassign,
    ReassignmentResult,
)
from jbodlab.metadata.election import Election
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, state: ControllerState, now_ms: int
) -> ControllerResult[AlterPartitionReassignmentsResponse]:
    """Set or replace the target of partitions, or cancel what is under way.

    One partition's error does not stop the others; what is written counts as a whole. A partition
    that is named twice sees its own first change.

    Raises:
        KafkaError: POLICY_VIOLATION, too many partitions for one request.
    """
    records = RecordList(state.metadata_version)
    changed: dict[tuple[str, int], PartitionEntry] = {}
    results = []
    for wish in request.partitions:
        key = wish.topic, wish.partition
        try:
            partition = changed[key] if key in changed else _find(wish, state)
            if wish.replicas is None:
                record = _cancelled(partition, state)
            else:
                target = wish.replicas
                if not request.allow_replication_factor_change:
                    _check_factor(target, partition.state)
                record = _retargeted(partition, target, state)
        except KafkaError as error:
            results.append(
                ReassignmentResult(
                    topic=wish.topic,
                    partition=wish.partition,
                    error_code=error.code,
                    error_message=error.message,
                )
            )
            continue
        if record is not None:
            records.add(record)
            records.check_size()
            changed[key] = with_state(partition, partition.state.merge(record))
        results.append(ReassignmentResult(topic=wish.topic, partition=wish.partition))
    return ControllerResult(
        response=AlterPartitionReassignmentsResponse(results=tuple(results)),
        records=records.as_tuple(),
        atomic=True,
    )


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, image: MetadataImage
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments under way; what is not known, or stands still, is left out."""
    asked = (
        partitions(image)
        if request.topic_partitions is None
        else _known(request.topic_partitions, image)
    )
    return ListPartitionReassignmentsResponse(
        reassignments=tuple(
            OngoingReassignment(
                topic=each.topic,
                partition=each.index,
                replicas=each.state.replicas,
                adding_replicas=each.state.adding_replicas,
                removing_replicas=each.state.removing_replicas,
            )
            for each in asked
            if is_under_way(each.state)
        )
    )


def is_under_way(state: PartitionRegistration) -> bool:
    """Return whether a partition is being reassigned."""
    return bool(state.adding_replicas or state.removing_replicas)


def _known(asked: Iterable[tuple[str, int]], image: MetadataImage) -> Iterator[PartitionEntry]:
    for name, index in dict.fromkeys(asked):
        topic = image.topics.by_name.get(name)
        if topic is not None and index in topic.partitions:
            yield PartitionEntry(name, topic.topic_id, index, topic.partitions[index])


def _find(wish: PartitionToReassign, state: ControllerState) -> PartitionEntry:
    topic = state.image.topics.by_name.get(wish.topic)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {wish.topic}."
        )
    known = topic.partitions.get(wish.partition)
    if known is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {wish.topic}:{wish.partition}.",
        )
    return PartitionEntry(topic.name, topic.topic_id, wish.partition, known)


def _check_factor(target: tuple[BrokerId, ...], known: PartitionRegistration) -> None:
    """Check that a target has as many replicas as the partition is to have already (KIP-860)."""
    factor = len(known.replicas) - len(known.removing_replicas)
    if len(target) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )


def _retargeted(
    partition: PartitionEntry, target: tuple[BrokerId, ...], state: ControllerState
) -> PartitionChangeRecord | None:
    """Return the record that sets a target; None where the partition has it already.

    A replica that was being added for an earlier target counts as there: the new target keeps it or
    removes it.
    """
    known = partition.state
    check_assignment(target, None, state, existing=known.replicas)
    removing = tuple(sorted(set(known.replicas).difference(target)))
    wanted = Wanted(
        replicas=target + removing,
        removing=removing,
        adding=tuple(sorted(set(target).difference(known.replicas))),
    )
    return _changed(partition, wanted, state, Election.ONLINE)


def _cancelled(partition: PartitionEntry, state: ControllerState) -> PartitionChangeRecord | None:
    """Return the record that takes out what is being added."""
    known = partition.state
    if not is_under_way(known):
        raise KafkaError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
        )
    replicas = tuple(each for each in known.replicas if each not in known.adding_replicas)
    isr = tuple(each for each in known.isr if each not in known.adding_replicas)
    if not replicas:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Invalid replica assignment: addingReplicas contains all replicas.",
        )
    unclean_enabled = state.unclean_election_enabled(partition.topic)
    if not isr:
        # All that is in sync would go. The next leader may lack records.
        if not unclean_enabled:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {partition.topic}:{partition.index} "
                "because it would require an unclean leader election.",
            )
        isr = replicas[:1]
    wanted = Wanted(isr=isr, replicas=replicas, removing=(), adding=())
    return _changed(partition, wanted, state, election_for(unclean_enabled))


def _changed(
    partition: PartitionEntry, wanted: Wanted, state: ControllerState, election: Election
) -> PartitionChangeRecord | None:
    brokers = state.image.cluster.brokers
    return partition_change(
        partition,
        wanted,
        may_lead=leader_test(state.image.cluster),
        metadata_version=state.metadata_version,
        degraded=state.degraded,
        min_isr=state.min_isr(partition.topic),
        election=election,
        new_directory=lambda broker_id: default_directory(
            brokers.get(broker_id), state.metadata_version
        ),
    )
