"""Protobuf messages <-> the values of `jbodlab.requests`, both ways.

`to_proto` and `from_proto` are chosen by the type of their argument, one pair for each message; no
protobuf type travels beyond the modules that call them. Lists that are flat in a value and grouped
on the wire are grouped by *neighbours*, so that the order of the value survives the journey.

What a peer may have got wrong is refused here, with a `DecodeError` that names the field: an id
that is not 16 bytes, an error code that Kafka does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from itertools import groupby
from typing import Any
from uuid import UUID

from google.protobuf.message import Message

from jbodlab import requests as values
from jbodlab.error_code import ErrorCode
from jbodlab.errors import DecodeError
from jbodlab.ids import (
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from jbodlab.kafka_uuid import ZERO_UUID
from jbodlab.rpc import controller_pb2 as pb

ID_SIZE_BYTES = 16
DEFAULT_TIMEOUT_MS = 60_000
"""What a client waits for that does not say how long."""


@singledispatch
def to_proto(message: object) -> Any:
    """Return the protobuf message of a value of `jbodlab.requests`."""
    raise AssertionError(f"no protobuf message for {type(message).__name__}")


@singledispatch
def from_proto(message: Message) -> Any:
    """Return the value of `jbodlab.requests` that a protobuf message stands for.

    Raises:
        DecodeError: an id is not 16 bytes, or an error code is not one of Kafka's.
    """
    raise AssertionError(f"no value for {type(message).__name__}")


def timeout_ms(message: Any) -> int:
    """Return how long the sender of a request waits for the answer."""
    return int(message.timeout_ms) if message.HasField("timeout_ms") else DEFAULT_TIMEOUT_MS


# BrokerRegistration


@to_proto.register
def _(request: values.BrokerRegistrationRequest) -> pb.BrokerRegistrationRequest:
    return pb.BrokerRegistrationRequest(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id.bytes,
        listeners=[
            pb.BrokerRegistrationRequest.Listener(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            pb.BrokerRegistrationRequest.Feature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
        rack=request.rack,
        is_migrating_zk_broker=request.is_migrating_zk_broker,
        log_dirs=[directory.bytes for directory in request.log_dirs],
        previous_broker_epoch=request.previous_broker_epoch,
        cordoned_log_dirs=[directory.bytes for directory in request.cordoned_log_dirs or ()],
        knows_cordoned_log_dirs=request.cordoned_log_dirs is not None,
    )


@from_proto.register
def _(message: pb.BrokerRegistrationRequest) -> values.BrokerRegistrationRequest:
    return values.BrokerRegistrationRequest(
        broker_id=BrokerId(message.broker_id),
        cluster_id=message.cluster_id,
        incarnation_id=_uuid("incarnation_id", message.incarnation_id),
        listeners=tuple(
            values.Listener(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in message.listeners
        ),
        features=tuple(
            values.Feature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in message.features
        ),
        rack=message.rack if message.HasField("rack") else None,
        is_migrating_zk_broker=message.is_migrating_zk_broker,
        log_dirs=_directories("log_dirs", message.log_dirs),
        previous_broker_epoch=(
            BrokerEpoch(message.previous_broker_epoch)
            if message.HasField("previous_broker_epoch")
            else UNKNOWN_BROKER_EPOCH
        ),
        cordoned_log_dirs=_cordoned(message),
    )


@to_proto.register
def _(response: values.BrokerRegistrationResponse) -> pb.BrokerRegistrationResponse:
    return pb.BrokerRegistrationResponse(
        error_code=response.error_code,
        broker_epoch=response.broker_epoch,
        error_message=response.error_message,
    )


@from_proto.register
def _(message: pb.BrokerRegistrationResponse) -> values.BrokerRegistrationResponse:
    return values.BrokerRegistrationResponse(
        error_code=_error_code(message.error_code),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        error_message=message.error_message,
    )


# BrokerHeartbeat


@to_proto.register
def _(request: values.BrokerHeartbeatRequest) -> pb.BrokerHeartbeatRequest:
    return pb.BrokerHeartbeatRequest(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        current_metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        offline_log_dirs=[directory.bytes for directory in request.offline_log_dirs],
        degraded_log_dirs=[directory.bytes for directory in request.degraded_log_dirs],
        full_log_dirs=[directory.bytes for directory in request.full_log_dirs],
        tolerated_log_dirs=[directory.bytes for directory in request.tolerated_log_dirs],
        cordoned_log_dirs=[directory.bytes for directory in request.cordoned_log_dirs or ()],
        knows_cordoned_log_dirs=request.cordoned_log_dirs is not None,
    )


@from_proto.register
def _(message: pb.BrokerHeartbeatRequest) -> values.BrokerHeartbeatRequest:
    return values.BrokerHeartbeatRequest(
        broker_id=BrokerId(message.broker_id),
        broker_epoch=_broker_epoch(message),
        current_metadata_offset=Offset(message.current_metadata_offset),
        want_fence=message.want_fence,
        want_shut_down=message.want_shut_down,
        offline_log_dirs=_directories("offline_log_dirs", message.offline_log_dirs),
        degraded_log_dirs=_directories("degraded_log_dirs", message.degraded_log_dirs),
        full_log_dirs=_directories("full_log_dirs", message.full_log_dirs),
        tolerated_log_dirs=_directories("tolerated_log_dirs", message.tolerated_log_dirs),
        cordoned_log_dirs=_cordoned(message),
    )


@to_proto.register
def _(response: values.BrokerHeartbeatResponse) -> pb.BrokerHeartbeatResponse:
    return pb.BrokerHeartbeatResponse(
        error_code=response.error_code,
        is_caught_up=response.is_caught_up,
        is_fenced=response.is_fenced,
        should_shut_down=response.should_shut_down,
        error_message=response.error_message,
    )


@from_proto.register
def _(message: pb.BrokerHeartbeatResponse) -> values.BrokerHeartbeatResponse:
    return values.BrokerHeartbeatResponse(
        error_code=_error_code(message.error_code),
        is_caught_up=message.is_caught_up,
        is_fenced=message.is_fenced,
        should_shut_down=message.should_shut_down,
        error_message=message.error_message,
    )


# UnregisterBroker


@to_proto.register
def _(request: values.UnregisterBrokerRequest) -> pb.UnregisterBrokerRequest:
    return pb.UnregisterBrokerRequest(broker_id=request.broker_id)


@from_proto.register
def _(message: pb.UnregisterBrokerRequest) -> values.UnregisterBrokerRequest:
    return values.UnregisterBrokerRequest(broker_id=BrokerId(message.broker_id))


@to_proto.register
def _(response: values.UnregisterBrokerResponse) -> pb.UnregisterBrokerResponse:
    return pb.UnregisterBrokerResponse(
        error_code=response.error_code, error_message=response.error_message
    )


@from_proto.register
def _(message: pb.UnregisterBrokerResponse) -> values.UnregisterBrokerResponse:
    return values.UnregisterBrokerResponse(
        error_code=_error_code(message.error_code), error_message=message.error_message
    )


# AssignReplicasToDirs


@to_proto.register
def _(request: values.AssignReplicasToDirsRequest) -> pb.AssignReplicasToDirsRequest:
    kind = pb.AssignReplicasToDirsRequest
    return kind(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        directories=[
            kind.Directory(
                id=directory.bytes,
                topics=[
                    kind.Topic(
                        topic_id=topic_id.bytes,
                        partitions=[
                            kind.Partition(partition_index=each.partition) for each in partitions
                        ],
                    )
                    for topic_id, partitions in groupby(topics, lambda each: each.topic_id)
                ],
            )
            for directory, topics in groupby(request.assignments, lambda each: each.directory)
        ],
    )


@from_proto.register
def _(message: pb.AssignReplicasToDirsRequest) -> values.AssignReplicasToDirsRequest:
    assignments = []
    for directory in message.directories:
        directory_id = DirectoryId(_uuid("directories.id", directory.id))
        for topic in directory.topics:
            topic_id = TopicId(_uuid("topics.topic_id", topic.topic_id))
            assignments += [
                values.DirectoryAssignment(
                    topic_id=topic_id, partition=each.partition_index, directory=directory_id
                )
                for each in topic.partitions
            ]
    return values.AssignReplicasToDirsRequest(
        broker_id=BrokerId(message.broker_id),
        broker_epoch=_broker_epoch(message),
        assignments=tuple(assignments),
    )


@to_proto.register
def _(response: values.AssignReplicasToDirsResponse) -> pb.AssignReplicasToDirsResponse:
    kind = pb.AssignReplicasToDirsResponse
    return kind(
        error_code=response.error_code,
        error_message=response.error_message,
        directories=[
            kind.Directory(
                id=directory.bytes,
                topics=[
                    kind.Topic(
                        topic_id=topic_id.bytes,
                        partitions=[
                            kind.Partition(partition_index=each.partition, error_code=code)
                            for each, code in partitions
                        ],
                    )
                    for topic_id, partitions in groupby(topics, lambda pair: pair[0].topic_id)
                ],
            )
            for directory, topics in groupby(response.results, lambda pair: pair[0].directory)
        ],
    )


@from_proto.register
def _(message: pb.AssignReplicasToDirsResponse) -> values.AssignReplicasToDirsResponse:
    results = []
    for directory in message.directories:
        directory_id = DirectoryId(_uuid("directories.id", directory.id))
        for topic in directory.topics:
            topic_id = TopicId(_uuid("topics.topic_id", topic.topic_id))
            for each in topic.partitions:
                assignment = values.DirectoryAssignment(
                    topic_id=topic_id, partition=each.partition_index, directory=directory_id
                )
                results.append((assignment, _error_code(each.error_code)))
    return values.AssignReplicasToDirsResponse(
        error_code=_error_code(message.error_code),
        results=tuple(results),
        error_message=message.error_message,
    )


# AlterPartition


@to_proto.register
def _(request: values.AlterPartitionRequest) -> pb.AlterPartitionRequest:
    kind = pb.AlterPartitionRequest
    return kind(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        topics=[
            kind.Topic(
                topic_id=topic_id.bytes,
                partitions=[
                    kind.Partition(
                        partition_index=change.partition,
                        leader_epoch=change.leader_epoch,
                        new_isr_with_epochs=[
                            kind.IsrMember(
                                broker_id=member.broker_id, broker_epoch=member.broker_epoch
                            )
                            for member in change.new_isr
                        ],
                        leader_recovery_state=change.leader_recovery_state,
                        partition_epoch=change.partition_epoch,
                    )
                    for change in changes
                ],
            )
            for topic_id, changes in groupby(request.changes, lambda change: change.topic_id)
        ],
    )


@from_proto.register
def _(message: pb.AlterPartitionRequest) -> values.AlterPartitionRequest:
    changes = []
    for topic in message.topics:
        topic_id = TopicId(_uuid("topics.topic_id", topic.topic_id))
        changes += [
            values.IsrChange(
                topic_id=topic_id,
                partition=each.partition_index,
                leader_epoch=LeaderEpoch(each.leader_epoch),
                new_isr=tuple(
                    values.IsrMember(
                        broker_id=BrokerId(member.broker_id), broker_epoch=_broker_epoch(member)
                    )
                    for member in each.new_isr_with_epochs
                ),
                leader_recovery_state=each.leader_recovery_state,
                partition_epoch=PartitionEpoch(each.partition_epoch),
            )
            for each in topic.partitions
        ]
    return values.AlterPartitionRequest(
        broker_id=BrokerId(message.broker_id),
        broker_epoch=_broker_epoch(message),
        changes=tuple(changes),
    )


@to_proto.register
def _(response: values.AlterPartitionResponse) -> pb.AlterPartitionResponse:
    kind = pb.AlterPartitionResponse
    return kind(
        error_code=response.error_code,
        error_message=response.error_message,
        topics=[
            kind.Topic(
                topic_id=topic_id.bytes,
                partitions=[
                    kind.Partition(
                        partition_index=result.partition,
                        error_code=result.error_code,
                        leader_id=result.leader,
                        leader_epoch=result.leader_epoch,
                        isr=result.isr,
                        leader_recovery_state=result.leader_recovery_state,
                        partition_epoch=result.partition_epoch,
                    )
                    for result in results
                ],
            )
            for topic_id, results in groupby(response.results, lambda result: result.topic_id)
        ],
    )


@from_proto.register
def _(message: pb.AlterPartitionResponse) -> values.AlterPartitionResponse:
    results = []
    for topic in message.topics:
        topic_id = TopicId(_uuid("topics.topic_id", topic.topic_id))
        results += [
            values.IsrChangeResult(
                topic_id=topic_id,
                partition=each.partition_index,
                error_code=_error_code(each.error_code),
                leader=BrokerId(each.leader_id),
                leader_epoch=LeaderEpoch(each.leader_epoch),
                isr=_broker_ids(each.isr),
                leader_recovery_state=each.leader_recovery_state,
                partition_epoch=PartitionEpoch(each.partition_epoch),
            )
            for each in topic.partitions
        ]
    return values.AlterPartitionResponse(
        error_code=_error_code(message.error_code),
        results=tuple(results),
        error_message=message.error_message,
    )


# CreateTopics


@to_proto.register
def _(request: values.CreateTopicsRequest) -> pb.CreateTopicsRequest:
    kind = pb.CreateTopicsRequest
    return kind(
        topics=[
            kind.Topic(
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=[
                    kind.Assignment(partition_index=index, broker_ids=broker_ids)
                    for index, broker_ids in topic.assignments
                ],
                configs=[kind.Config(name=name, value=value) for name, value in topic.configs],
            )
            for topic in request.topics
        ],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )


@from_proto.register
def _(message: pb.CreateTopicsRequest) -> values.CreateTopicsRequest:
    return values.CreateTopicsRequest(
        topics=tuple(
            values.NewTopic(
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=tuple(
                    (each.partition_index, _broker_ids(each.broker_ids))
                    for each in topic.assignments
                ),
                configs=tuple(
                    (each.name, each.value if each.HasField("value") else None)
                    for each in topic.configs
                ),
            )
            for topic in message.topics
        ),
        timeout_ms=timeout_ms(message),
        validate_only=message.validate_only,
    )


@to_proto.register
def _(response: values.CreateTopicsResponse) -> pb.CreateTopicsResponse:
    kind = pb.CreateTopicsResponse
    return kind(
        topics=[
            kind.Topic(
                name=topic.name,
                topic_id=_optional_bytes(topic.topic_id),
                error_code=topic.error_code,
                error_message=topic.error_message,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                configs=[
                    kind.Config(
                        name=each.name,
                        value=each.value,
                        read_only=each.read_only,
                        config_source=each.config_source,
                        is_sensitive=each.is_sensitive,
                    )
                    for each in topic.configs
                ],
            )
            for topic in response.topics
        ]
    )


@from_proto.register
def _(message: pb.CreateTopicsResponse) -> values.CreateTopicsResponse:
    return values.CreateTopicsResponse(
        topics=tuple(
            values.CreatedTopic(
                name=topic.name,
                topic_id=_optional_topic_id(topic.topic_id),
                error_code=_error_code(topic.error_code),
                error_message=topic.error_message,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                configs=tuple(
                    values.TopicConfigEntry(
                        name=each.name,
                        value=each.value if each.HasField("value") else None,
                        read_only=each.read_only,
                        config_source=each.config_source,
                        is_sensitive=each.is_sensitive,
                    )
                    for each in topic.configs
                ),
            )
            for topic in message.topics
        )
    )


# DeleteTopics


@to_proto.register
def _(request: values.DeleteTopicsRequest) -> pb.DeleteTopicsRequest:
    return pb.DeleteTopicsRequest(
        topics=[
            pb.DeleteTopicsRequest.Topic(name=topic.name, topic_id=_optional_bytes(topic.topic_id))
            for topic in request.topics
        ],
        timeout_ms=request.timeout_ms,
    )


@from_proto.register
def _(message: pb.DeleteTopicsRequest) -> values.DeleteTopicsRequest:
    return values.DeleteTopicsRequest(
        topics=tuple(
            values.TopicToDelete(
                name=topic.name if topic.HasField("name") else None,
                topic_id=_optional_topic_id(topic.topic_id),
            )
            for topic in message.topics
        ),
        timeout_ms=timeout_ms(message),
    )


@to_proto.register
def _(response: values.DeleteTopicsResponse) -> pb.DeleteTopicsResponse:
    return pb.DeleteTopicsResponse(
        responses=[
            pb.DeleteTopicsResponse.Response(
                name=topic.name,
                topic_id=_optional_bytes(topic.topic_id),
                error_code=topic.error_code,
                error_message=topic.error_message,
            )
            for topic in response.responses
        ]
    )


@from_proto.register
def _(message: pb.DeleteTopicsResponse) -> values.DeleteTopicsResponse:
    return values.DeleteTopicsResponse(
        responses=tuple(
            values.DeletedTopic(
                name=topic.name if topic.HasField("name") else None,
                topic_id=_optional_topic_id(topic.topic_id),
                error_code=_error_code(topic.error_code),
                error_message=topic.error_message,
            )
            for topic in message.responses
        )
    )


# CreatePartitions


@to_proto.register
def _(request: values.CreatePartitionsRequest) -> pb.CreatePartitionsRequest:
    kind = pb.CreatePartitionsRequest
    return kind(
        topics=[
            kind.Topic(
                name=topic.name,
                count=topic.count,
                assignments=[
                    kind.Assignment(broker_ids=broker_ids) for broker_ids in topic.assignments or ()
                ],
            )
            for topic in request.topics
        ],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )


@from_proto.register
def _(message: pb.CreatePartitionsRequest) -> values.CreatePartitionsRequest:
    return values.CreatePartitionsRequest(
        topics=tuple(
            values.PartitionsToAdd(
                name=topic.name,
                count=topic.count,
                assignments=(
                    tuple(_broker_ids(each.broker_ids) for each in topic.assignments)
                    if topic.assignments
                    else None
                ),
            )
            for topic in message.topics
        ),
        timeout_ms=timeout_ms(message),
        validate_only=message.validate_only,
    )


@to_proto.register
def _(response: values.CreatePartitionsResponse) -> pb.CreatePartitionsResponse:
    return pb.CreatePartitionsResponse(
        results=[
            pb.CreatePartitionsResponse.Result(
                name=result.name, error_code=result.error_code, error_message=result.error_message
            )
            for result in response.results
        ]
    )


@from_proto.register
def _(message: pb.CreatePartitionsResponse) -> values.CreatePartitionsResponse:
    return values.CreatePartitionsResponse(
        results=tuple(
            values.CreatePartitionsResult(
                name=result.name,
                error_code=_error_code(result.error_code),
                error_message=result.error_message,
            )
            for result in message.results
        )
    )


# ElectLeaders


@to_proto.register
def _(request: values.ElectLeadersRequest) -> pb.ElectLeadersRequest:
    return pb.ElectLeadersRequest(
        election_type=request.election_type,
        topic_partitions=[
            pb.ElectLeadersRequest.Topic(topic=topic, partitions=[pair[1] for pair in pairs])
            for topic, pairs in groupby(request.topic_partitions or (), lambda pair: pair[0])
        ],
        all_partitions=request.topic_partitions is None,
        timeout_ms=request.timeout_ms,
    )


@from_proto.register
def _(message: pb.ElectLeadersRequest) -> values.ElectLeadersRequest:
    return values.ElectLeadersRequest(
        election_type=message.election_type,
        topic_partitions=(
            None
            if message.all_partitions
            else tuple(
                (topic.topic, partition)
                for topic in message.topic_partitions
                for partition in topic.partitions
            )
        ),
        timeout_ms=timeout_ms(message),
    )


@to_proto.register
def _(response: values.ElectLeadersResponse) -> pb.ElectLeadersResponse:
    kind = pb.ElectLeadersResponse
    return kind(
        error_code=response.error_code,
        error_message=response.error_message,
        replica_election_results=[
            kind.ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    kind.PartitionResult(
                        partition_id=result.partition,
                        error_code=result.error_code,
                        error_message=result.error_message,
                    )
                    for result in results
                ],
            )
            for topic, results in groupby(response.results, lambda result: result.topic)
        ]
        + [kind.ReplicaElectionResult(topic=topic) for topic in response.settled_topics],
    )


@from_proto.register
def _(message: pb.ElectLeadersResponse) -> values.ElectLeadersResponse:
    return values.ElectLeadersResponse(
        error_code=_error_code(message.error_code),
        error_message=message.error_message,
        results=tuple(
            values.ElectionResult(
                topic=topic.topic,
                partition=each.partition_id,
                error_code=_error_code(each.error_code),
                error_message=each.error_message,
            )
            for topic in message.replica_election_results
            for each in topic.partition_result
        ),
        settled_topics=tuple(
            topic.topic for topic in message.replica_election_results if not topic.partition_result
        ),
    )


# AlterPartitionReassignments


@to_proto.register
def _(request: values.AlterPartitionReassignmentsRequest) -> pb.AlterPartitionReassignmentsRequest:
    kind = pb.AlterPartitionReassignmentsRequest
    return kind(
        topics=[
            kind.Topic(
                name=topic,
                partitions=[
                    kind.Partition(
                        partition_index=each.partition,
                        replicas=each.replicas or (),
                        cancel=each.replicas is None,
                    )
                    for each in partitions
                ],
            )
            for topic, partitions in groupby(request.partitions, lambda each: each.topic)
        ],
        timeout_ms=request.timeout_ms,
        allow_replication_factor_change=request.allow_replication_factor_change,
    )


@from_proto.register
def _(message: pb.AlterPartitionReassignmentsRequest) -> values.AlterPartitionReassignmentsRequest:
    return values.AlterPartitionReassignmentsRequest(
        partitions=tuple(
            values.PartitionToReassign(
                topic=topic.name,
                partition=each.partition_index,
                replicas=None if each.cancel else _broker_ids(each.replicas),
            )
            for topic in message.topics
            for each in topic.partitions
        ),
        allow_replication_factor_change=(
            message.allow_replication_factor_change
            if message.HasField("allow_replication_factor_change")
            else True
        ),
        timeout_ms=timeout_ms(message),
    )


@to_proto.register
def _(
    response: values.AlterPartitionReassignmentsResponse,
) -> pb.AlterPartitionReassignmentsResponse:
    kind = pb.AlterPartitionReassignmentsResponse
    return kind(
        error_code=response.error_code,
        error_message=response.error_message,
        responses=[
            kind.Topic(
                name=topic,
                partitions=[
                    kind.Partition(
                        partition_index=result.partition,
                        error_code=result.error_code,
                        error_message=result.error_message,
                    )
                    for result in results
                ],
            )
            for topic, results in groupby(response.results, lambda result: result.topic)
        ],
    )


@from_proto.register
def _(
    message: pb.AlterPartitionReassignmentsResponse,
) -> values.AlterPartitionReassignmentsResponse:
    return values.AlterPartitionReassignmentsResponse(
        error_code=_error_code(message.error_code),
        error_message=message.error_message,
        results=tuple(
            values.ReassignmentResult(
                topic=topic.name,
                partition=each.partition_index,
                error_code=_error_code(each.error_code),
                error_message=each.error_message,
            )
            for topic in message.responses
            for each in topic.partitions
        ),
    )


# ListPartitionReassignments


@to_proto.register
def _(request: values.ListPartitionReassignmentsRequest) -> pb.ListPartitionReassignmentsRequest:
    return pb.ListPartitionReassignmentsRequest(
        topics=[
            pb.ListPartitionReassignmentsRequest.Topic(
                name=topic, partition_indexes=[pair[1] for pair in pairs]
            )
            for topic, pairs in groupby(request.topic_partitions or (), lambda pair: pair[0])
        ],
        all_partitions=request.topic_partitions is None,
    )


@from_proto.register
def _(message: pb.ListPartitionReassignmentsRequest) -> values.ListPartitionReassignmentsRequest:
    return values.ListPartitionReassignmentsRequest(
        topic_partitions=(
            None
            if message.all_partitions
            else tuple(
                (topic.name, partition)
                for topic in message.topics
                for partition in topic.partition_indexes
            )
        ),
    )


@to_proto.register
def _(response: values.ListPartitionReassignmentsResponse) -> pb.ListPartitionReassignmentsResponse:
    kind = pb.ListPartitionReassignmentsResponse
    return kind(
        error_code=response.error_code,
        error_message=response.error_message,
        topics=[
            kind.Topic(
                name=topic,
                partitions=[
                    kind.Partition(
                        partition_index=each.partition,
                        replicas=each.replicas,
                        adding_replicas=each.adding_replicas,
                        removing_replicas=each.removing_replicas,
                    )
                    for each in partitions
                ],
            )
            for topic, partitions in groupby(response.reassignments, lambda each: each.topic)
        ],
    )


@from_proto.register
def _(message: pb.ListPartitionReassignmentsResponse) -> values.ListPartitionReassignmentsResponse:
    return values.ListPartitionReassignmentsResponse(
        error_code=_error_code(message.error_code),
        error_message=message.error_message,
        reassignments=tuple(
            values.OngoingReassignment(
                topic=topic.name,
                partition=each.partition_index,
                replicas=_broker_ids(each.replicas),
                adding_replicas=_broker_ids(each.adding_replicas),
                removing_replicas=_broker_ids(each.removing_replicas),
            )
            for topic in message.topics
            for each in topic.partitions
        ),
    )


# AllocateProducerIds


@to_proto.register
def _(request: values.AllocateProducerIdsRequest) -> pb.AllocateProducerIdsRequest:
    return pb.AllocateProducerIdsRequest(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch
    )


@from_proto.register
def _(message: pb.AllocateProducerIdsRequest) -> values.AllocateProducerIdsRequest:
    return values.AllocateProducerIdsRequest(
        broker_id=BrokerId(message.broker_id), broker_epoch=_broker_epoch(message)
    )


@to_proto.register
def _(response: values.AllocateProducerIdsResponse) -> pb.AllocateProducerIdsResponse:
    return pb.AllocateProducerIdsResponse(
        error_code=response.error_code,
        producer_id_start=response.producer_id_start,
        producer_id_len=response.producer_id_len,
        error_message=response.error_message,
    )


@from_proto.register
def _(message: pb.AllocateProducerIdsResponse) -> values.AllocateProducerIdsResponse:
    return values.AllocateProducerIdsResponse(
        error_code=_error_code(message.error_code),
        producer_id_start=message.producer_id_start,
        producer_id_len=message.producer_id_len,
        error_message=message.error_message,
    )


# IncrementalAlterConfigs and AlterConfigs


@to_proto.register
def _(request: values.IncrementalAlterConfigsRequest) -> pb.IncrementalAlterConfigsRequest:
    kind = pb.IncrementalAlterConfigsRequest
    return kind(
        resources=[
            kind.Resource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[
                    kind.Config(
                        name=change.name, config_operation=change.operation, value=change.value
                    )
                    for change in resource.changes
                ],
            )
            for resource in request.resources
        ],
        validate_only=request.validate_only,
    )


@from_proto.register
def _(message: pb.IncrementalAlterConfigsRequest) -> values.IncrementalAlterConfigsRequest:
    return values.IncrementalAlterConfigsRequest(
        resources=tuple(
            values.ConfigResource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                changes=tuple(
                    values.ConfigChange(
                        name=config.name,
                        operation=config.config_operation,
                        value=config.value if config.HasField("value") else None,
                    )
                    for config in resource.configs
                ),
            )
            for resource in message.resources
        ),
        validate_only=message.validate_only,
    )


@to_proto.register
def _(request: values.AlterConfigsRequest) -> pb.AlterConfigsRequest:
    kind = pb.AlterConfigsRequest
    return kind(
        resources=[
            kind.Resource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[
                    kind.Config(name=change.name, value=change.value) for change in resource.changes
                ],
            )
            for resource in request.resources
        ],
        validate_only=request.validate_only,
    )


@from_proto.register
def _(message: pb.AlterConfigsRequest) -> values.AlterConfigsRequest:
    return values.AlterConfigsRequest(
        resources=tuple(
            values.ConfigResource(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                changes=tuple(
                    values.ConfigChange(
                        name=config.name,
                        value=config.value if config.HasField("value") else None,
                    )
                    for config in resource.configs
                ),
            )
            for resource in message.resources
        ),
        validate_only=message.validate_only,
    )


@to_proto.register
def _(response: values.AlterConfigsResponse) -> pb.AlterConfigsResponse:
    return pb.AlterConfigsResponse(
        responses=[
            pb.AlterConfigsResponse.Response(
                error_code=each.error_code,
                error_message=each.error_message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in response.responses
        ],
        metadata_offset=response.metadata_offset,
    )


@from_proto.register
def _(message: pb.AlterConfigsResponse) -> values.AlterConfigsResponse:
    return values.AlterConfigsResponse(
        responses=tuple(
            values.AlteredResource(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=_error_code(each.error_code),
                error_message=each.error_message,
            )
            for each in message.responses
        ),
        metadata_offset=Offset(message.metadata_offset),
    )


# DescribeQuorum


@to_proto.register
def _(response: values.DescribeQuorumResponse) -> pb.DescribeQuorumResponse:
    return pb.DescribeQuorumResponse(
        error_code=response.error_code,
        cluster_id=response.cluster_id,
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        high_watermark=response.high_watermark,
    )


@from_proto.register
def _(message: pb.DescribeQuorumResponse) -> values.DescribeQuorumResponse:
    return values.DescribeQuorumResponse(
        error_code=_error_code(message.error_code),
        cluster_id=message.cluster_id,
        leader_id=BrokerId(message.leader_id),
        leader_epoch=LeaderEpoch(message.leader_epoch),
        high_watermark=Offset(message.high_watermark),
    )


# MetadataStream


@to_proto.register
def _(request: values.MetadataStreamRequest) -> pb.MetadataStreamRequest:
    return pb.MetadataStreamRequest(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
    )


@from_proto.register
def _(message: pb.MetadataStreamRequest) -> values.MetadataStreamRequest:
    return values.MetadataStreamRequest(
        broker_id=BrokerId(message.broker_id),
        cluster_id=message.cluster_id,
        fetch_offset=Offset(message.fetch_offset),
        last_fetched_epoch=LeaderEpoch(message.last_fetched_epoch),
    )


@to_proto.register
def _(response: values.MetadataStreamResponse) -> pb.MetadataStreamResponse:
    message = pb.MetadataStreamResponse(
        records=response.records, high_watermark=response.high_watermark
    )
    if response.snapshot is not None:
        message.snapshot.end_offset = response.snapshot.end_offset
        message.snapshot.epoch = response.snapshot.epoch
        message.snapshot.content = response.snapshot.content
        message.snapshot.last = response.snapshot.last
    if response.diverging_end_offset is not None:
        # Setting a field to its default would leave the message itself absent.
        message.diverging.SetInParent()
        message.diverging.end_offset = response.diverging_end_offset
    return message


@from_proto.register
def _(message: pb.MetadataStreamResponse) -> values.MetadataStreamResponse:
    return values.MetadataStreamResponse(
        high_watermark=Offset(message.high_watermark),
        records=message.records,
        snapshot=(
            values.SnapshotPiece(
                end_offset=Offset(message.snapshot.end_offset),
                epoch=LeaderEpoch(message.snapshot.epoch),
                content=message.snapshot.content,
                last=message.snapshot.last,
            )
            if message.HasField("snapshot")
            else None
        ),
        diverging_end_offset=(
            Offset(message.diverging.end_offset) if message.HasField("diverging") else None
        ),
    )


def _uuid(field: str, raw: bytes) -> UUID:
    if len(raw) != ID_SIZE_BYTES:
        raise DecodeError(f"field {field} has {len(raw)} bytes where an id has {ID_SIZE_BYTES}")
    return UUID(bytes=raw)


def _directories(field: str, raw_ids: Iterable[bytes]) -> tuple[DirectoryId, ...]:
    return tuple(DirectoryId(_uuid(field, raw)) for raw in raw_ids)


def _cordoned(message: Any) -> tuple[DirectoryId, ...] | None:
    if not message.knows_cordoned_log_dirs:
        return None
    return _directories("cordoned_log_dirs", message.cordoned_log_dirs)


def _optional_topic_id(raw: bytes) -> TopicId | None:
    topic_id = _uuid("topic_id", raw) if raw else ZERO_UUID
    return None if topic_id == ZERO_UUID else TopicId(topic_id)


def _optional_bytes(value: UUID | None) -> bytes:
    return b"" if value is None else value.bytes


def _broker_ids(numbers: Sequence[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def _broker_epoch(message: Any) -> BrokerEpoch:
    if message.HasField("broker_epoch"):
        return BrokerEpoch(message.broker_epoch)
    return UNKNOWN_BROKER_EPOCH


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        raise DecodeError(f"{number} is not an error code of Kafka") from None
