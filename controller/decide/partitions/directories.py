"""Log directories: those that a broker reports offline, and in which of them its replicas are.

A partition keeps naming a directory that failed, so that the replica comes back to life together
with the directory. It is found by a scan over all partitions; at the sizes served, an index would
cost more than it saves.

Source: `ReplicationControlManager.handleDirectoriesOffline`, `handleAssignReplicasToDirs`, KIP-858.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from controller.decide.partitions.leader_and_isr import in_directory, without_broker
from controller.decide.partitions.partition_change import Wanted, election_for, partition_change
from controller.decide.state import (
    ControllerResult,
    ControllerState,
    LeaderTest,
    PartitionEntry,
    RecordList,
    leader_test,
)
from jbodlab.controller_api.requests import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryAssignment,
)
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.metadata.records.metadata_version import JBOD_LEVEL
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.directory_id import LOST
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicIdPartition

logger = logging.getLogger(__name__)


def newly_offline(
    registration: BrokerRegistration, offline_log_dirs: Iterable[DirectoryId]
) -> tuple[DirectoryId, ...]:
    """Return the registered directories that a broker says have failed, in registration order."""
    reported = frozenset(offline_log_dirs)
    return tuple(each for each in registration.directories if each in reported)


def add_offline_directories(
    records: RecordList,
    state: ControllerState,
    registration: BrokerRegistration,
    failed: tuple[DirectoryId, ...],
    *,
    already_removed_from_isrs: bool,
) -> None:
    """Append what follows from the failure of some of a broker's directories.

    First the partitions: the broker leaves ISR and leadership of each that has its replica in a
    failed directory. Then the registration, with the directories that are left.

    Args:
        records: Where to.
        state: The state before.
        registration: The broker.
        failed: Directories of its registration; never all of them.
        already_removed_from_isrs: Whether records of this result remove the broker from all ISRs.
            Judging the partitions by the old state once more would raise their epochs twice.
    """
    remaining = tuple(each for each in registration.directories if each not in failed)
    # An empty list would read as no change.
    assert remaining
    if not already_removed_from_isrs:
        for directory in failed:
            affected = in_directory(state, registration.broker_id, directory)
            for record in without_broker(state, registration.broker_id, affected, failed=failed):
                records.add(record)
    records.add(
        BrokerRegistrationChangeRecord(
            broker_id=registration.broker_id, broker_epoch=registration.epoch, log_dirs=remaining
        )
    )


def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, state: ControllerState, now_ms: int
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Note in which directories a broker holds replicas.

    Any directory id is accepted. A replica in a directory that is not online for the broker (it
    failed, is not the broker's, or is LOST) leaves ISR and leadership by a second record.
    """
    if state.metadata_version < JBOD_LEVEL:
        message = f"log directories need metadata.version {JBOD_LEVEL}"
        return _refused(ErrorCode.UNSUPPORTED_VERSION, message)
    registration = state.image.cluster.brokers.get(request.broker_id)
    if registration is None or registration.epoch != request.broker_epoch:
        return _refused(ErrorCode.STALE_BROKER_EPOCH, f"unknown broker {request.broker_id}")
    assigner = _Assigner(state, registration)
    results = tuple(map(assigner.assign, request.assignments))
    assigner.take_offline_replicas_out()
    return ControllerResult(
        response=AssignReplicasToDirsResponse(results=results),
        records=assigner.records.as_tuple(),
    )


def _refused(code: ErrorCode, message: str) -> ControllerResult[AssignReplicasToDirsResponse]:
    return ControllerResult(
        response=AssignReplicasToDirsResponse(error_code=code, error_message=message)
    )


class _Assigner:
    """The assignments of one request, each judged by the state that the ones before it left."""

    def __init__(self, state: ControllerState, registration: BrokerRegistration) -> None:
        self.records = RecordList(state.metadata_version)
        self._state = state
        self._broker = registration
        self._partitions: dict[TopicIdPartition, PartitionEntry] = {}
        self._may_lead = leader_test(state.image.cluster)
        self._degraded = state.degraded

    def assign(self, assignment: DirectoryAssignment) -> ErrorCode:
        """Change one replica's directory."""
        partition = self._partition(assignment)
        if isinstance(partition, ErrorCode):
            return partition
        broker_id, directory = self._broker.broker_id, assignment.directory
        may_lead = self._may_lead
        if not self._broker.directory_is_online(directory):
            logger.warning(
                "a broker reports a replica in a directory that is not online",
                extra={
                    "broker_id": broker_id,
                    "topic": partition.topic,
                    "partition": partition.index,
                    "directory_id": kafka_uuid.to_text(directory),
                },
            )
            # The second record judges by the new directory; this one only notes it.
            may_lead = _judging_by(may_lead, broker_id, partition.state.directory(broker_id))
        record = partition_change(
            partition,
            Wanted(directories={broker_id: directory}),
            may_lead=may_lead,
            metadata_version=self._state.metadata_version,
            degraded=self._degraded,
            min_isr=self._state.min_isr(partition.topic),
            lost=() if self._is_move(partition, directory) else (broker_id,),
        )
        if record is not None:
            self._apply(partition, record)
        return ErrorCode.NONE

    def _is_move(self, partition: PartitionEntry, directory: DirectoryId) -> bool:
        """Return whether a replica has what it had in the directory that it was in.

        A copy that takes its place has all of it, and the first report of a directory loses
        nothing. A recreated log lacks the records of a directory that is gone. The broker does not
        take back that a replica is LOST while a recreated log is counted on.
        """
        former = partition.state.directory(self._broker.broker_id)
        return former in (directory, LOST) or self._broker.directory_is_online(former)

    def take_offline_replicas_out(self) -> None:
        """Take the broker out of the ISR of each partition that it now holds offline."""
        broker_id = self._broker.broker_id
        may_lead = leader_test(self._state.image.cluster, excluding=broker_id)
        for partition in list(self._partitions.values()):
            if self._broker.directory_is_online(partition.state.directory(broker_id)):
                continue
            record = partition_change(
                partition,
                Wanted(isr=tuple(each for each in partition.state.isr if each != broker_id)),
                may_lead=may_lead,
                metadata_version=self._state.metadata_version,
                degraded=self._degraded,
                election=election_for(self._state.unclean_election_enabled(partition.topic)),
                min_isr=self._state.min_isr(partition.topic),
                lost=(broker_id,),
            )
            if record is not None:
                self._apply(partition, record)

    def _partition(self, assignment: DirectoryAssignment) -> PartitionEntry | ErrorCode:
        key = TopicIdPartition(assignment.topic_id, assignment.partition)
        if key in self._partitions:
            return self._partitions[key]
        topic = self._state.image.topics.by_id.get(assignment.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        state = topic.partitions.get(assignment.partition)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._broker.broker_id not in state.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = PartitionEntry(topic.name, topic.topic_id, assignment.partition, state)
        self._partitions[key] = partition
        return partition

    def _apply(self, partition: PartitionEntry, record: PartitionChangeRecord) -> None:
        self.records.add(record)
        key = TopicIdPartition(partition.topic_id, partition.index)
        self._partitions[key] = with_state(partition, partition.state.merge(record))


def with_state(partition: PartitionEntry, state: PartitionRegistration) -> PartitionEntry:
    """Return a partition with another state."""
    return PartitionEntry(partition.topic, partition.topic_id, partition.index, state)


def _judging_by(may_lead: LeaderTest, broker_id: BrokerId, directory: DirectoryId) -> LeaderTest:
    """Return a test that looks at a given directory of one broker."""

    def is_acceptable(replica: BrokerId, held_in: DirectoryId) -> bool:
        return may_lead(replica, directory if replica == broker_id else held_in)

    return is_acceptable
