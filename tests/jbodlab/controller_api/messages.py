"""Values of all messages between brokers and controller; of each type every field is set in one."""

from __future__ import annotations

from uuid import UUID

from jbodlab.controller_api import requests as values
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, Offset, TopicId

TOPIC = TopicId(UUID("e493ee00-1889-4cfb-b6a5-08e965633afc"))
OTHER_TOPIC = TopicId(UUID("11111111-1889-4cfb-b6a5-08e965633afc"))
DIR_1 = DirectoryId(UUID("6f877d13-174e-4606-90ab-7f02c87c164c"))
DIR_2 = DirectoryId(UUID("3f668bf6-be2c-4aaa-b2b7-b6c2d2e89eae"))
ONE, TWO = BrokerId(1), BrokerId(2)
EPOCH = BrokerEpoch(17)


def _assignment(topic: TopicId, partition: int, directory: DirectoryId) -> object:
    return values.DirectoryAssignment(topic_id=topic, partition=partition, directory=directory)


# Neighbours differ in directory and in topic, and come back to earlier ones.
ASSIGNMENTS = (
    _assignment(TOPIC, 3, DIR_1),
    _assignment(TOPIC, 1, DIR_1),
    _assignment(OTHER_TOPIC, 1, DIR_1),
    _assignment(TOPIC, 2, DIR_2),
    _assignment(TOPIC, 0, DIR_1),
)

MESSAGES = [
    values.BrokerRegistrationRequest(
        broker_id=ONE,
        cluster_id="JGpFIlgLQVmmBZ4FPbLkkg",
        incarnation_id=UUID(int=77),
        listeners=(
            values.Listener(name="PLAINTEXT", host="localhost", port=9092),
            values.Listener(name="INSIDE", host="b1", port=65535, security_protocol=3),
        ),
        features=(
            values.Feature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            ),
        ),
        rack="r1",
        is_migrating_zk_broker=True,
        log_dirs=(DIR_1, DIR_2),
        previous_broker_epoch=EPOCH,
        cordoned_log_dirs=(DIR_2,),
    ),
    values.BrokerRegistrationRequest(
        broker_id=ONE, cluster_id="", incarnation_id=UUID(int=77), listeners=()
    ),
    values.BrokerRegistrationResponse(broker_epoch=EPOCH),
    values.BrokerRegistrationResponse(
        error_code=ErrorCode.INVALID_REGISTRATION, error_message="no directories"
    ),
    values.BrokerHeartbeatRequest(
        broker_id=ONE,
        broker_epoch=EPOCH,
        current_metadata_offset=Offset(2**40),
        want_fence=True,
        want_shut_down=True,
        offline_log_dirs=(DIR_2, DIR_1),
        metadata_log_dir=DIR_1,
        degraded_log_dirs=(DIR_1, DIR_2),
        full_log_dirs=(DIR_1,),
        tolerated_log_dirs=(DIR_2,),
        cordoned_log_dirs=(DIR_1,),
    ),
    values.BrokerHeartbeatRequest(
        broker_id=ONE, broker_epoch=BrokerEpoch(-1), current_metadata_offset=Offset(-1)
    ),
    values.BrokerHeartbeatResponse(
        is_caught_up=True, is_fenced=False, should_shut_down=True, error_message="x"
    ),
    values.BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
    values.UnregisterBrokerRequest(broker_id=TWO),
    values.UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message="no broker 2"
    ),
    values.AssignReplicasToDirsRequest(
        broker_id=ONE,
        broker_epoch=EPOCH,
        assignments=ASSIGNMENTS,  # type: ignore[arg-type]
    ),
    values.AssignReplicasToDirsResponse(
        results=tuple((each, ErrorCode(n)) for n, each in enumerate(ASSIGNMENTS))  # type: ignore[misc]
    ),
    values.AssignReplicasToDirsResponse(
        error_code=ErrorCode.STALE_BROKER_EPOCH, error_message="stale"
    ),
    values.AlterPartitionRequest(
        broker_id=ONE,
        broker_epoch=EPOCH,
        changes=(
            values.IsrChange(
                topic_id=TOPIC,
                partition=4,
                leader_epoch=LeaderEpoch(5),
                new_isr=(
                    values.IsrMember(broker_id=ONE, broker_epoch=EPOCH),
                    values.IsrMember(broker_id=TWO),
                ),
                leader_recovery_state=1,
                partition_epoch=6,  # type: ignore[arg-type]
            ),
        ),
    ),
    values.AlterPartitionResponse(
        results=(
            values.IsrChangeResult(
                topic_id=TOPIC,
                partition=4,
                leader=TWO,
                leader_epoch=LeaderEpoch(5),
                isr=(TWO, ONE),
                leader_recovery_state=1,
                partition_epoch=7,  # type: ignore[arg-type]
            ),
            values.IsrChangeResult(
                topic_id=OTHER_TOPIC, partition=0, error_code=ErrorCode.INELIGIBLE_REPLICA
            ),
        )
    ),
    values.AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, error_message="stale"),
    values.CreateTopicsRequest(
        topics=(
            values.NewTopic(
                name="foo",
                assignments=((1, (ONE, TWO)), (0, ())),
                configs=(("min.insync.replicas", "2"), ("retention.ms", None), ("x", "")),
            ),
            values.NewTopic(name="", num_partitions=3, replication_factor=2),
        ),
        timeout_ms=5,
        validate_only=True,
        mutator=values.Mutator(client_id="c", is_strict=True),
    ),
    values.CreateTopicsResponse(
        topics=(
            values.CreatedTopic(
                name="foo",
                topic_id=TOPIC,
                num_partitions=3,
                replication_factor=2,
                configs=(
                    values.TopicConfigEntry(name="a", value=None),
                    values.TopicConfigEntry(
                        name="b", value="1", read_only=True, config_source=1, is_sensitive=True
                    ),
                ),
            ),
            values.CreatedTopic(
                name="bar", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="exists"
            ),
        ),
        throttle_time_ms=7,
    ),
    values.DeleteTopicsRequest(
        topics=(values.TopicToDelete(name="foo"), values.TopicToDelete(topic_id=TOPIC)),
        timeout_ms=1,
        mutator=values.Mutator(),
    ),
    values.DeleteTopicsResponse(
        responses=(
            values.DeletedTopic(name="foo", topic_id=TOPIC),
            values.DeletedTopic(error_code=ErrorCode.INVALID_REQUEST, error_message="neither"),
        )
    ),
    values.CreatePartitionsRequest(
        topics=(
            values.PartitionsToAdd(name="foo", count=4),
            values.PartitionsToAdd(name="bar", count=2, assignments=((ONE, TWO), ())),
        ),
        timeout_ms=3,
        validate_only=True,
    ),
    values.CreatePartitionsResponse(
        results=(
            values.CreatePartitionsResult(name="foo", error_code=ErrorCode.NONE),
            values.CreatePartitionsResult(
                name="bar", error_code=ErrorCode.INVALID_PARTITIONS, error_message="too few"
            ),
        )
    ),
    values.ElectLeadersRequest(election_type=1, topic_partitions=None),
    values.ElectLeadersRequest(election_type=0, topic_partitions=()),
    values.ElectLeadersRequest(
        election_type=-1, topic_partitions=(("foo", 1), ("foo", 0), ("bar", 0)), timeout_ms=9
    ),
    values.ElectLeadersResponse(settled_topics=("foo", "bar")),
    values.ElectLeadersResponse(
        results=(
            values.ElectionResult(topic="foo", partition=1),
            values.ElectionResult(
                topic="bar",
                partition=0,
                error_code=ErrorCode.ELECTION_NOT_NEEDED,
                error_message="it leads",
            ),
        ),
    ),
    values.ElectLeadersResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="text",
    ),
    values.AlterPartitionReassignmentsRequest(
        partitions=(
            values.PartitionToReassign(topic="a", partition=0, replicas=(TWO, ONE)),
            values.PartitionToReassign(topic="a", partition=1, replicas=None),
            values.PartitionToReassign(topic="b", partition=0, replicas=()),
        ),
        allow_replication_factor_change=False,
        timeout_ms=7,
    ),
    values.AlterPartitionReassignmentsRequest(partitions=()),
    values.AlterPartitionReassignmentsResponse(
        results=(
            values.ReassignmentResult(topic="a", partition=0),
            values.ReassignmentResult(
                topic="b",
                partition=1,
                error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                error_message="none",
            ),
        )
    ),
    values.AlterPartitionReassignmentsResponse(
        error_code=ErrorCode.POLICY_VIOLATION, error_message="too much"
    ),
    values.ListPartitionReassignmentsRequest(),
    values.ListPartitionReassignmentsRequest(topic_partitions=(("a", 1), ("a", 0), ("b", 0))),
    values.ListPartitionReassignmentsRequest(topic_partitions=()),
    values.ListPartitionReassignmentsResponse(
        reassignments=(
            values.OngoingReassignment(
                topic="a",
                partition=0,
                replicas=(TWO, ONE),
                adding_replicas=(TWO,),
                removing_replicas=(ONE,),
            ),
            values.OngoingReassignment(topic="b", partition=3, replicas=(ONE,)),
        )
    ),
    values.ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NOT_CONTROLLER, error_message="not here"
    ),
    values.AllocateProducerIdsRequest(broker_id=ONE, broker_epoch=EPOCH),
    values.AllocateProducerIdsResponse(producer_id_start=2**40, producer_id_len=1000),
    values.AllocateProducerIdsResponse(
        error_code=ErrorCode.STALE_BROKER_EPOCH, error_message="stale"
    ),
    values.IncrementalAlterConfigsRequest(
        resources=(
            values.ConfigResource(
                resource_type=2,
                resource_name="a",
                changes=(
                    values.ConfigChange(name="x", operation=1),
                    values.ConfigChange(name="y", operation=2, value=""),
                ),
            ),
            values.ConfigResource(resource_type=4, resource_name=""),
        ),
        validate_only=True,
    ),
    values.AlterConfigsRequest(
        resources=(
            values.ConfigResource(
                resource_type=4,
                resource_name="1",
                changes=(
                    values.ConfigChange(name="x", value="1"),
                    values.ConfigChange(name="y"),
                ),
            ),
        ),
        validate_only=True,
    ),
    values.AlterConfigsResponse(
        responses=(
            values.AlteredResource(
                resource_type=2,
                resource_name="a",
                error_code=ErrorCode.INVALID_CONFIG,
                error_message="no",
            ),
        ),
        metadata_offset=Offset(2**40),
    ),
    values.BrokerHeartbeatRequest(
        broker_id=ONE,
        broker_epoch=EPOCH,
        current_metadata_offset=Offset(1),
        cordoned_log_dirs=(),
    ),
    values.AlterClientQuotasRequest(
        entries=(
            values.QuotaEntry(
                entity=(
                    values.QuotaEntityName(entity_type="user", entity_name="u"),
                    values.QuotaEntityName(entity_type="client-id"),
                ),
                ops=(
                    values.QuotaChange(key="request_percentage", value=12.5),
                    values.QuotaChange(key="producer_byte_rate", remove=True),
                ),
            ),
        ),
        validate_only=True,
    ),
    values.AlterClientQuotasResponse(
        entries=(
            values.AlteredQuota(
                entity=(values.QuotaEntityName(entity_type="user"),),
                error_code=ErrorCode.INVALID_REQUEST,
                error_message="no",
            ),
        ),
        metadata_offset=Offset(9),
    ),
    values.UpdateFeaturesRequest(
        feature_updates=(
            values.FeatureUpdate(feature="a", max_version_level=0, upgrade_type=2),
            values.FeatureUpdate(feature="b", max_version_level=3),
        ),
        timeout_ms=7,
        validate_only=True,
    ),
    values.UpdateFeaturesResponse(),
    values.UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="no"),
    values.DescribeQuorumRequest(),
    values.DescribeQuorumResponse(
        error_code=ErrorCode.NOT_CONTROLLER,
        cluster_id="c",
        leader_id=ONE,
        leader_epoch=LeaderEpoch(3),
        high_watermark=Offset(8),
        current_voters=(
            values.QuorumReplica(
                replica_id=ONE,
                log_end_offset=Offset(9),
                last_fetch_timestamp_ms=2**40,
                last_caught_up_timestamp_ms=2**40 + 1,
                replica_directory_id=DIR_1,
            ),
        ),
        observers=(values.QuorumReplica(replica_id=TWO, log_end_offset=Offset(0)),),
    ),
    values.MetadataStreamRequest(
        broker_id=ONE, cluster_id="c", fetch_offset=Offset(0), last_fetched_epoch=LeaderEpoch(-1)
    ),
    values.MetadataStreamRequest(
        broker_id=ONE, cluster_id="c", fetch_offset=Offset(9), last_fetched_epoch=LeaderEpoch(2)
    ),
    values.MetadataStreamResponse(high_watermark=Offset(3), records=b"\0\1"),
    values.MetadataStreamResponse(high_watermark=Offset(3)),
    values.MetadataStreamResponse(high_watermark=Offset(3), diverging_end_offset=Offset(0)),
    values.MetadataStreamResponse(high_watermark=Offset(3), diverging_end_offset=Offset(2)),
    values.MetadataStreamResponse(
        high_watermark=Offset(3),
        snapshot=values.SnapshotPiece(
            end_offset=Offset(2), epoch=LeaderEpoch(1), content=b"piece", last=True
        ),
    ),
    values.MetadataStreamResponse(
        high_watermark=Offset(3),
        snapshot=values.SnapshotPiece(
            end_offset=Offset(0), epoch=LeaderEpoch(0), content=b"", last=False
        ),
    ),
]
