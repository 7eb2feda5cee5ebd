"""New partitions: manual assignments checked, replicas placed, first states made.

Source: `ReplicationControlManager.createTopic`, `createPartitions`, `buildPartitionRegistration`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controller.decide.cordon import cordoned_problem, takes_new_replicas
from controller.decide.partitions.placement import UsableBroker, place
from controller.decide.state import ControllerState, Randomness, default_directory
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.metadata.records.topic_records import PartitionRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId

ALL_INACTIVE = "All brokers are currently fenced or in controlled shutdown."


def check_assignment(
    replicas: Sequence[BrokerId],
    expected_size: int | None,
    state: ControllerState,
    *,
    existing: Collection[BrokerId] = (),
) -> None:
    """Check the replicas that a user chose for one partition.

    Args:
        replicas: The choice.
        expected_size: Replication factor of the topic's other partitions; None for the first.
        state: The controller's state.
        existing: The replicas that the partition has, which may stay where they are even if all
            directories there are cordoned.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """
    problem = None
    seen: set[BrokerId] = set()
    if not replicas:
        problem = "an empty replica list."
    for broker_id in sorted(replicas):
        if broker_id not in state.image.cluster.brokers:
            problem = f"broker {broker_id}, but no such broker is registered."
        elif broker_id in seen:
            problem = f"the broker {broker_id} more than once."
        seen.add(broker_id)
        if problem is not None:
            break
    if problem is None and expected_size is not None and len(replicas) != expected_size:
        problem = (
            f"a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {expected_size} replica(s)."
        )
    if problem is None:
        new = [broker_id for broker_id in replicas if broker_id not in existing]
        problem = cordoned_problem(new, state)
    if problem is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes {problem}",
        )


def manual_partition(
    topic_id: TopicId, index: int, replicas: tuple[BrokerId, ...], state: ControllerState
) -> PartitionRecord:
    """Return the first state of a partition whose replicas a user chose.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT: none of them is active.
    """
    record = _partition(topic_id, index, replicas, state)
    if record is None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition "
            f"{index} are fenced or in controlled shutdown.",
        )
    return record


def placed_partitions(
    topic_id: TopicId,
    first_index: int,
    count: int,
    replication_factor: int,
    state: ControllerState,
    randomness: Randomness,
) -> list[PartitionRecord]:
    """Return the first states of partitions that the controller places.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR: placement is impossible, or nobody is active.
    """
    records = []
    placed = place(usable_brokers(state), count, replication_factor, randomness)
    for index, replicas in enumerate(placed, start=first_index):
        record = _partition(topic_id, index, replicas, state)
        if record is None:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, ALL_INACTIVE)
        records.append(record)
    return records


def usable_brokers(state: ControllerState) -> list[UsableBroker]:
    """Return the brokers on which replicas may be placed.

    These are all that are not about to leave and have a directory that is not cordoned.

    One whose directories are all full comes last, as one that is fenced does, unless nobody else is
    left.
    """
    degraded = state.degraded
    staying = [
        registration
        for registration in state.image.cluster.brokers.values()
        if not registration.in_controlled_shutdown
        and takes_new_replicas(registration)
        and not state.heartbeats.in_controlled_shutdown(registration.broker_id)
    ]
    full = {
        each.broker_id
        for each in staying
        if degraded.takes_nothing(each.broker_id, each.directories)
    }
    if all(each.fenced or each.broker_id in full for each in staying):
        full = set()
    return [
        UsableBroker(
            broker_id=each.broker_id,
            rack=each.rack,
            fenced=each.fenced or each.broker_id in full,
        )
        for each in staying
    ]


def _partition(
    topic_id: TopicId, index: int, replicas: tuple[BrokerId, ...], state: ControllerState
) -> PartitionRecord | None:
    """Return the first state; None if no replica is active.

    As later, replicas in full directories stay out of an ISR that has others, and those in degraded
    ones do not lead if others can.
    """
    brokers, degraded = state.image.cluster.brokers, state.degraded
    directories = {
        each: default_directory(brokers.get(each), state.metadata_version) for each in replicas
    }
    active = tuple(each for each in replicas if each in brokers and brokers[each].active)
    if not active:
        return None
    isr = tuple(each for each in active if not degraded.is_full(each, directories[each])) or active
    leader = min(isr, key=lambda each: degraded.is_degraded(each, directories[each]))
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        # Older records have no place for them.
        directories=(tuple(directories.values()) if state.metadata_version >= JBOD_LEVEL else ()),
    )
