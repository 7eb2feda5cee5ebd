"""Broker <-> controller messages as values.

One struct per Kafka message, with Kafka's fields in snake_case; the comments name the API and
the version whose fields these are. Fields that Kafka groups by topic or directory are flat. Broker
and controller know each other only through this module and the wire, where the messages of `proto/`
have the same names and fields (`jbodlab.controller_api.translate`).

Beyond Kafka, responses to what changes the metadata have a `metadata_offset`: the broker that has
applied the metadata so far knows the changes. It is -1 where nothing has changed.
"""

from __future__ import annotations

from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import (
    NO_LEADER,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)

ResponseT = TypeVar("ResponseT")

RECORDS_PER_REQUEST_MAX = 10_000
"""Most records of the metadata log that one request of a user may cause."""

TOO_LARGE = "Unable to perform excessively large batch operation"
"""Text of the POLICY_VIOLATION for a request beyond that."""


class Request(msgspec.Struct, Generic[ResponseT], frozen=True, kw_only=True):
    """A request that the controller carries out; answered by a response of type `ResponseT`."""

    @classmethod
    def method(cls) -> str:
        """Return the name of the method that takes such requests."""
        return cls.__name__.removesuffix("Request")


BROKER = "Broker"
"""The type of the principal of a broker that wants something for itself; no client has it."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The client for whom a broker asks; the controller decides for its rights.

    Attributes:
        principal: As `User:alice`, or `Broker:1`.
        host: The address that it connects from.
    """

    principal: str
    host: str


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """A feature, and the levels of it that a node supports."""

    name: str
    min_supported_version: int
    max_supported_version: int


# BrokerRegistration, API 62, version 4


class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"], frozen=True, kw_only=True):
    """A broker process announces itself; `log_dirs` are its online directories."""

    broker_id: BrokerId
    cluster_id: str
    incarnation_id: UUID
    listeners: tuple[Endpoint, ...]
    features: tuple[Feature, ...] = ()
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[DirectoryId, ...] = ()
    previous_broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    cordoned_log_dirs: tuple[DirectoryId, ...] | None = None
    """Beyond Kafka, from version 4 on: None while the broker does not know its dynamic configs."""


class BrokerRegistrationResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The broker epoch, which fences every earlier registration of the same broker."""

    error_code: ErrorCode = ErrorCode.NONE
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    error_message: str = ""


# BrokerHeartbeat, API 63, version 2


class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"], frozen=True, kw_only=True):
    """A sign of life; `offline_log_dirs` is cumulative until the broker restarts.

    Cordoned directories get no new replicas; None while the broker does not know its dynamic
    configs.

    The three before them go beyond Kafka: degraded directories are online, but full or slow, so
    that other replicas should lead; the full ones among them take no more data; those tolerated
    keep the leaders they have. They hold until the next heartbeat.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    current_metadata_offset: Offset
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[DirectoryId, ...] = ()
    degraded_log_dirs: tuple[DirectoryId, ...] = ()
    full_log_dirs: tuple[DirectoryId, ...] = ()
    tolerated_log_dirs: tuple[DirectoryId, ...] = ()
    cordoned_log_dirs: tuple[DirectoryId, ...] | None = None
    metadata_log_dir: DirectoryId | None = None
    """Where the broker keeps the metadata log."""


class BrokerHeartbeatResponse(msgspec.Struct, frozen=True, kw_only=True):
    """State of the broker for the controller; an error carries these defaults."""

    error_code: ErrorCode = ErrorCode.NONE
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
    error_message: str = ""


# UnregisterBroker, API 64


class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"], frozen=True, kw_only=True):
    """An operator removes a broker from the cluster."""

    broker_id: BrokerId
    caller: Caller | None = None


class UnregisterBrokerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it was known."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    metadata_offset: Offset = Offset(-1)


# AssignReplicasToDirs, API 73


class DirectoryAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of the sending broker and the directory that holds it."""

    topic_id: TopicId
    partition: int
    directory: DirectoryId


class AssignReplicasToDirsRequest(
    Request["AssignReplicasToDirsResponse"], frozen=True, kw_only=True
):
    """Where replicas of one broker are."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    assignments: tuple[DirectoryAssignment, ...]


class AssignReplicasToDirsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One code for each assignment, in the order of the request; empty on a top-level error."""

    error_code: ErrorCode = ErrorCode.NONE
    results: tuple[ErrorCode, ...] = ()
    error_message: str = ""


# AlterPartition, API 56, version 3


class IsrMember(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed ISR member; epoch -1 leaves the member's epoch unchecked."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


class IsrChange(msgspec.Struct, frozen=True, kw_only=True):
    """The ISR that the leader of one partition proposes."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    new_isr: tuple[IsrMember, ...]
    leader_recovery_state: int = 0
    partition_epoch: PartitionEpoch


class AlterPartitionRequest(Request["AlterPartitionResponse"], frozen=True, kw_only=True):
    """ISR changes proposed by one broker."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    changes: tuple[IsrChange, ...]


class IsrChangeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the partition after the change; zero and empty on an error."""

    topic_id: TopicId
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    leader: BrokerId = BrokerId(0)
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    isr: tuple[BrokerId, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: PartitionEpoch = PartitionEpoch(0)


class AlterPartitionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One result for each change; empty on a top-level error."""

    error_code: ErrorCode = ErrorCode.NONE
    results: tuple[IsrChangeResult, ...] = ()
    error_message: str = ""


class Mutator(msgspec.Struct, frozen=True, kw_only=True):
    """The client that wants topics or partitions created or deleted (KIP-599).

    Attributes:
        client_id: Its name for itself; empty without one.
        is_strict: Whether its request can be refused for its `controller_mutation_rate`.
    """

    client_id: str = ""
    is_strict: bool = False


# CreateTopics, API 19, version 7


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to create; counts are -1 for the default and with explicit assignments."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[BrokerId, ...]], ...] = ()
    """Pairs of partition index and replicas, as the client sent them."""
    configs: tuple[tuple[str, str | None], ...] = ()
    topic_id: TopicId | None = None
    """Drawn by the broker, so that a request that comes again finds its own topic; None: by the
    controller."""


class CreateTopicsRequest(Request["CreateTopicsResponse"], frozen=True, kw_only=True):
    """Topics to create, all of them or none in one batch of records."""

    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False
    mutator: Mutator | None = None
    """None for a broker that asks on its own account."""
    caller: Caller | None = None


class TopicConfigEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One effective setting of a created topic; `config_source` 1 topic, 4 static, 5 default."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = 5
    is_sensitive: bool = False


class CreatedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one topic."""

    name: str
    topic_id: TopicId | None = None
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[TopicConfigEntry, ...] = ()


class CreateTopicsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each topic asked for."""

    topics: tuple[CreatedTopic, ...] = ()
    throttle_time_ms: int = 0
    metadata_offset: Offset = Offset(-1)


# DeleteTopics, API 20, version 6


class TopicToDelete(msgspec.Struct, frozen=True, kw_only=True):
    """Has a name or an id; a repeated request has both, and the id counts."""

    name: str | None = None
    topic_id: TopicId | None = None


class DeleteTopicsRequest(Request["DeleteTopicsResponse"], frozen=True, kw_only=True):
    """Topics to delete."""

    topics: tuple[TopicToDelete, ...]
    timeout_ms: int = 60_000
    mutator: Mutator | None = None
    caller: Caller | None = None
    is_again: bool = False
    """Whether it may have been carried out before; what is so already counts as done then."""


class DeletedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one topic."""

    name: str | None
    topic_id: TopicId | None
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class DeleteTopicsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each topic asked for."""

    responses: tuple[DeletedTopic, ...] = ()
    throttle_time_ms: int = 0
    metadata_offset: Offset = Offset(-1)


# CreatePartitions, API 37


class PartitionsToAdd(msgspec.Struct, frozen=True, kw_only=True):
    """The new total of a topic's partitions; without assignments the controller places them."""

    name: str
    count: int
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None


class CreatePartitionsRequest(Request["CreatePartitionsResponse"], frozen=True, kw_only=True):
    """Topics to grow."""

    topics: tuple[PartitionsToAdd, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False
    mutator: Mutator | None = None
    caller: Caller | None = None
    is_again: bool = False
    """Whether it may have been carried out before; what is so already counts as done then."""


class CreatePartitionsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one topic."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class CreatePartitionsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each topic asked for."""

    results: tuple[CreatePartitionsResult, ...] = ()
    throttle_time_ms: int = 0
    metadata_offset: Offset = Offset(-1)


# ElectLeaders, API 43, version 2


class ElectLeadersRequest(Request["ElectLeadersResponse"], frozen=True, kw_only=True):
    """Elect the preferred (0) or, uncleanly, any live (1) replica as leader."""

    election_type: int
    topic_partitions: tuple[tuple[str, int], ...] | None
    """None asks for every partition."""
    timeout_ms: int = 60_000
    caller: Caller | None = None


class ElectionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one partition."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class ElectLeadersResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each partition asked for; without those led already when all were asked."""

    error_code: ErrorCode = ErrorCode.NONE
    results: tuple[ElectionResult, ...] = ()
    error_message: str = ""
    settled_topics: tuple[str, ...] = ()
    """Topics without any entry: all of their partitions are led already."""
    metadata_offset: Offset = Offset(-1)


# AlterPartitionReassignments, API 45, version 1


class PartitionToReassign(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers that a partition shall have; None cancels what is under way."""

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...] | None


class AlterPartitionReassignmentsRequest(
    Request["AlterPartitionReassignmentsResponse"], frozen=True, kw_only=True
):
    """Partitions to give to other brokers."""

    partitions: tuple[PartitionToReassign, ...]
    allow_replication_factor_change: bool = True
    timeout_ms: int = 60_000
    caller: Caller | None = None


class ReassignmentResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one partition."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class AlterPartitionReassignmentsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each partition asked for; empty on a top-level error."""

    error_code: ErrorCode = ErrorCode.NONE
    results: tuple[ReassignmentResult, ...] = ()
    error_message: str = ""
    metadata_offset: Offset = Offset(-1)


# ListPartitionReassignments, API 46


class ListPartitionReassignmentsRequest(
    Request["ListPartitionReassignmentsResponse"], frozen=True, kw_only=True
):
    """Asks for the reassignments under way; of all partitions if None are named."""

    topic_partitions: tuple[tuple[str, int], ...] | None = None


class OngoingReassignment(msgspec.Struct, frozen=True, kw_only=True):
    """A partition under way: `replicas` has those that stay, come and go."""

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()


class ListPartitionReassignmentsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions under way; what does not exist, or stands still, is left out."""

    error_code: ErrorCode = ErrorCode.NONE
    reassignments: tuple[OngoingReassignment, ...] = ()
    error_message: str = ""


# AllocateProducerIds, API 67


class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"], frozen=True, kw_only=True):
    """A broker asks for a block of producer ids."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class AllocateProducerIdsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The block: `producer_id_len` ids from `producer_id_start` on."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id_start: int = 0
    producer_id_len: int = 0
    error_message: str = ""


# AlterConfigs, API 33, version 2, and IncrementalAlterConfigs, API 44, version 1


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True):
    """Change of one config: 0 set, 1 delete, 2 append to a list, 3 subtract from it."""

    name: str
    config_operation: int = 0
    value: str | None = None


class ConfigResource(msgspec.Struct, frozen=True, kw_only=True):
    """A topic (2) or a broker (4) and what changes there; an empty name means all brokers."""

    resource_type: int
    resource_name: str
    configs: tuple[ConfigChange, ...] = ()


class IncrementalAlterConfigsRequest(Request["AlterConfigsResponse"], frozen=True, kw_only=True):
    """Configs to change; each resource for itself, and there all of them or none."""

    resources: tuple[ConfigResource, ...]
    validate_only: bool = False
    caller: Caller | None = None


class AlterConfigsRequest(Request["AlterConfigsResponse"], frozen=True, kw_only=True):
    """Configs that take the place of everything that is set for a resource."""

    resources: tuple[ConfigResource, ...]
    validate_only: bool = False
    caller: Caller | None = None


class AlteredResource(msgspec.Struct, frozen=True, kw_only=True):
    """Result for the configs of one resource."""

    resource_type: int
    resource_name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class AlterConfigsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each resource; also of IncrementalAlterConfigs."""

    responses: tuple[AlteredResource, ...] = ()
    metadata_offset: Offset = Offset(-1)


# AlterClientQuotas, API 49, version 1


class QuotaEntityName(msgspec.Struct, frozen=True, kw_only=True):
    """A part of whom a quota is for: `user` or `client-id`; the name is None for the default."""

    entity_type: str
    entity_name: str | None = None


class QuotaChange(msgspec.Struct, frozen=True, kw_only=True):
    """A quota to be set, or removed."""

    key: str
    value: float = 0.0
    remove: bool = False


class QuotaEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of the quotas of one entity."""

    entity: tuple[QuotaEntityName, ...]
    ops: tuple[QuotaChange, ...]


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"], frozen=True, kw_only=True):
    """Quotas to set and remove, of each entity all or none."""

    entries: tuple[QuotaEntry, ...]
    validate_only: bool = False
    caller: Caller | None = None


class AlteredQuota(msgspec.Struct, frozen=True, kw_only=True):
    """Result for the changes of one entity."""

    entity: tuple[QuotaEntityName, ...]
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class AlterClientQuotasResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each of the request."""

    entries: tuple[AlteredQuota, ...] = ()
    metadata_offset: Offset = Offset(-1)


# AlterUserScramCredentials, API 51, version 0


class ScramCredentialDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """A credential to be removed."""

    name: str
    mechanism: int


class ScramCredentialUpsertion(msgspec.Struct, frozen=True, kw_only=True):
    """A credential to be set; the salted password is as good as the password."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion(name={self.name!r}, mechanism={self.mechanism})"


class AlterUserScramCredentialsRequest(
    Request["AlterUserScramCredentialsResponse"], frozen=True, kw_only=True
):
    """SCRAM credentials of users to remove and to set."""

    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()
    caller: Caller | None = None


class AlteredUserScramCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one user."""

    user: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class AlterUserScramCredentialsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One result for each user that the request names.

    Attributes:
        error_code: Beyond Kafka: of a request of which nothing could be done.
    """

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    results: tuple[AlteredUserScramCredentials, ...] = ()
    metadata_offset: Offset = Offset(-1)


# CreateAcls and DeleteAcls, APIs 30 and 31, version 3


class AclCreation(msgspec.Struct, frozen=True, kw_only=True):
    """An access control entry to be written; codes are those of `jbodlab.security.acl`."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class CreateAclsRequest(Request["CreateAclsResponse"], frozen=True, kw_only=True):
    """Access control entries to be written."""

    creations: tuple[AclCreation, ...]
    caller: Caller | None = None


class AclCreationResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one entry."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class CreateAclsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One result for each entry, in their order."""

    results: tuple[AclCreationResult, ...] = ()
    metadata_offset: Offset = Offset(-1)


class DeleteAclsFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries to remove; None is anything."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class DeleteAclsRequest(Request["DeleteAclsResponse"], frozen=True, kw_only=True):
    """Access control entries to be removed."""

    filters: tuple[DeleteAclsFilter, ...]
    caller: Caller | None = None


class DeletedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that a filter has matched, and that is removed."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class DeleteAclsFilterResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one filter, with every entry that it has matched."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    matching_acls: tuple[DeletedAcl, ...] = ()


class DeleteAclsResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One result for each filter, in their order."""

    filter_results: tuple[DeleteAclsFilterResult, ...] = ()
    metadata_offset: Offset = Offset(-1)


# UpdateFeatures, API 57, version 2


class FeatureUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The level that a feature shall have; 1 upgrade, 2 safe downgrade, 3 unsafe downgrade."""

    feature: str
    max_version_level: int
    upgrade_type: int = 1


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"], frozen=True, kw_only=True):
    """Features to raise or lower, all of them or none."""

    feature_updates: tuple[FeatureUpdate, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False
    caller: Caller | None = None


class UpdateFeaturesResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the levels are set; the text names the first feature that could not be."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    metadata_offset: Offset = Offset(-1)


# DescribeQuorum, API 55, version 2


class DescribeQuorumRequest(Request["DescribeQuorumResponse"], frozen=True, kw_only=True):
    """Asks for the quorum of the metadata log."""


class QuorumReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A node with the metadata log; times are ms since 1970, -1 if unknown."""

    replica_id: BrokerId
    log_end_offset: Offset
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1
    replica_directory_id: DirectoryId | None = None
    """Where it keeps that log; None for a voter of a quorum that never changes."""


class DescribeQuorumResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Leader of the metadata log, how far it is committed, and how far it has reached."""

    error_code: ErrorCode = ErrorCode.NONE
    cluster_id: str = ""
    leader_id: BrokerId = NO_LEADER
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    high_watermark: Offset = Offset(0)
    current_voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()


# AddRaftVoter, API 80, version 1, and RemoveRaftVoter, API 81, version 0


class VoterListener(msgspec.Struct, frozen=True, kw_only=True):
    """Where other nodes reach a controller."""

    name: str
    host: str
    port: int


class AddRaftVoterRequest(Request["AddRaftVoterResponse"], frozen=True, kw_only=True):
    """Asks for one more voter, which follows the log already."""

    voter_id: BrokerId
    voter_directory_id: DirectoryId
    listeners: tuple[VoterListener, ...]
    timeout_ms: int = 60_000
    ack_when_committed: bool = True
    caller: Caller | None = None
    is_again: bool = False
    """Whether it may have been carried out before; what is so already counts as done then."""


class AddRaftVoterResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it is a voter."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"], frozen=True, kw_only=True):
    """Asks for one voter less."""

    voter_id: BrokerId
    voter_directory_id: DirectoryId
    caller: Caller | None = None
    is_again: bool = False
    """Whether it may have been carried out before; what is so already counts as done then."""


class RemoveRaftVoterResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it is none any more."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


# ResignLeadership; not in Kafka


class ResignLeadershipRequest(Request["ResignLeadershipResponse"], frozen=True, kw_only=True):
    """Asks the active controller to let another one lead: `successor`, if it is a good voter."""

    leader_epoch: LeaderEpoch
    successor: BrokerId | None = None
    caller: Caller | None = None


class ResignLeadershipResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it leads no more."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


# FindController; not in Kafka, where a broker asks for the leader by Fetch


class FindControllerRequest(Request["FindControllerResponse"], frozen=True, kw_only=True):
    """Asks any controller who leads the metadata log."""


class ControllerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where brokers reach a controller."""

    node_id: BrokerId
    host: str
    port: int


class FindControllerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epoch as a controller knows it; `is_active` says that it serves brokers."""

    node_id: BrokerId
    leader_id: BrokerId = NO_LEADER
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    is_active: bool = False
    controllers: tuple[ControllerAddress, ...] = ()


# MetadataStream


class MetadataStreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """From where on a broker wants committed metadata.

    `last_fetched_crc` is the CRC of the batch that ends before `fetch_offset`, None if unknown. By
    it a log is recognised that has taken the place of another one, and has the same offsets.
    """

    broker_id: BrokerId
    cluster_id: str
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    last_fetched_crc: int | None = None


class SnapshotPiece(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of a snapshot file, in order; `last` ends it."""

    end_offset: Offset
    epoch: LeaderEpoch
    content: bytes
    last: bool


class MetadataStreamResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of records, snapshot and diverging_end_offset; or none, as a sign of life.

    `leader_id` leads in `leader_epoch`; None before the controllers told that.
    """

    high_watermark: Offset
    records: bytes = b""
    snapshot: SnapshotPiece | None = None
    diverging_end_offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None
    leader_id: BrokerId | None = None
    kraft_version: int = 0
    """The finalized level, which is in no record of the metadata."""
