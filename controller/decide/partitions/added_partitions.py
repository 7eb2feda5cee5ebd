"""CreatePartitions: topics grow; what they have stays where it is.

Source: `ReplicationControlManager.createPartitions`, KIP-195.
"""

from __future__ import annotations

from collections import Counter

from controller.decide.partitions.initial_partitions import (
    ALL_INACTIVE,
    check_assignment,
    manual_partition,
    placed_partitions,
)
from controller.decide.state import (
    ControllerResult,
    ControllerState,
    Randomness,
    RecordList,
    check_count,
    offset_of_done,
)
from jbodlab.controller_api.requests import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    PartitionsToAdd,
)
from jbodlab.metadata.records.topic_records import PartitionRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import INTERNAL_TOPICS


def create_partitions(
    request: CreatePartitionsRequest,
    state: ControllerState,
    now_ms: int,
    *,
    randomness: Randomness,
) -> ControllerResult[CreatePartitionsResponse]:
    """Add partitions to topics.

    Raises:
        KafkaError: POLICY_VIOLATION, too many partitions for one request.
    """
    records = RecordList(state.metadata_version)
    mutations = state.mutations_of(request, now_ms)
    given = Counter(topic.name for topic in request.topics)
    results = []
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        try:
            if given[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _added_partitions(topic, state, randomness, is_again=request.is_again)
            mutations.take(len(added))
            for record in added:
                records.add(record)
            results.append(CreatePartitionsResult(name=name))
        except KafkaError as error:
            results.append(
                CreatePartitionsResult(
                    name=name, error_code=error.code, error_message=error.message
                )
            )
    records.check_size()
    return ControllerResult(
        response=CreatePartitionsResponse(
            results=tuple(results),
            throttle_time_ms=mutations.throttle_time_ms,
            metadata_offset=offset_of_done(state, is_again=request.is_again),
        ),
        records=() if request.validate_only else records.as_tuple(),
        mutations=mutations.used,
        atomic=True,
    )


def _added_partitions(
    topic: PartitionsToAdd, state: ControllerState, randomness: Randomness, *, is_again: bool
) -> list[PartitionRecord]:
    image = state.image.topics.by_name.get(topic.name)
    if image is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        )
    if topic.name in INTERNAL_TOPICS:
        # Which partition keeps a group follows from their number: groups would be lost.
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions of the internal topic {topic.name} cannot be changed.",
        )
    existing = len(image.partitions)
    if topic.count == existing and is_again:
        return []
    if topic.count == existing:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s)."
        )
    if topic.count < existing:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {existing} partition(s); {topic.count} would "
            "not be an increase.",
        )
    added = topic.count - existing
    check_count(added)
    factor = len(image.partitions[min(image.partitions)].replicas)
    first = max(image.partitions) + 1
    if topic.assignments is None:
        try:
            return placed_partitions(image.topic_id, first, added, factor, state, randomness)
        except KafkaError as error:
            if error.message == ALL_INACTIVE:
                raise KafkaError(
                    error.code,
                    f"Unable to replicate the partition {factor} time(s): {error.message}",
                ) from error
            raise
    if len(topic.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(topic.assignments)} assignment(s) were specified.",
        )
    partitions = []
    for index, replicas in enumerate(topic.assignments, start=first):
        check_assignment(replicas, factor, state)
        partitions.append(manual_partition(image.topic_id, index, replicas, state))
    return partitions
