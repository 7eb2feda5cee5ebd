"""Every API with its handler, built from what the broker consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from broker.api.admin.acls import AclsApi
from broker.api.admin.alter_configs import AlterConfigsApi, IncrementalAlterConfigsApi
from broker.api.admin.brokers_only import BrokersOnly
from broker.api.admin.client_quotas import AlterClientQuotasApi, DescribeClientQuotasApi
from broker.api.admin.features import UpdateFeaturesApi
from broker.api.admin.partitions import CreatePartitionsApi, ElectLeadersApi
from broker.api.admin.quorum import DescribeQuorumApi
from broker.api.admin.reassignments import (
    AlterPartitionReassignmentsApi,
    ListPartitionReassignmentsApi,
)
from broker.api.admin.topics import CreateTopicsApi, DeleteTopicsApi
from broker.api.admin.unregister import UnregisterBrokerApi
from broker.api.api_versions import ApiVersionsApi
from broker.api.cluster.describe_cluster import DescribeClusterApi
from broker.api.cluster.describe_configs import DescribeConfigsApi, ListConfigResourcesApi
from broker.api.cluster.metadata import MetadataApi
from broker.api.cluster.own_configs import OwnConfigs
from broker.api.cluster.topic_creator import TopicCreator
from broker.api.cluster.topic_partitions import DescribeTopicPartitionsApi
from broker.api.data.delete_records import DeleteRecordsApi
from broker.api.data.describe_producers import DescribeProducersApi
from broker.api.data.fetch import FetchApi
from broker.api.data.leader_epochs import OffsetForLeaderEpochApi
from broker.api.data.list_offsets import ListOffsetsApi
from broker.api.data.produce import ProduceApi
from broker.api.data.producer_ids import InitProducerIdApi, ProducerIds
from broker.api.directories.alter_log_dirs import AlterReplicaLogDirsApi
from broker.api.directories.log_dir_states import DescribeLogDirStatesApi
from broker.api.directories.log_dirs import DescribeLogDirsApi
from broker.api.directories.revival import ReviveLogDirApi
from broker.api.groups.administration import DeleteGroupsApi, DescribeGroupsApi, ListGroupsApi
from broker.api.groups.consumer_groups import ConsumerGroupDescribeApi, ConsumerGroupHeartbeatApi
from broker.api.groups.coordinators import GroupCoordinators
from broker.api.groups.find_coordinator import FindCoordinatorApi
from broker.api.groups.membership import HeartbeatApi, JoinGroupApi, LeaveGroupApi, SyncGroupApi
from broker.api.groups.offset_commit import OffsetCommitApi, OffsetDeleteApi
from broker.api.groups.offset_fetch import OffsetFetchApi
from broker.api.groups.share_groups import ShareGroupHeartbeatApi
from broker.api.measured import MeasuredApi
from broker.api.ports import Controller, Replicas, Revival
from broker.client_quotas import ClientQuotas
from broker.disk.directory.log_dir import LogDir
from broker.metadata_cache import MetadataCache
from broker.produce.passing_on import PassingOn
from broker.traffic import Traffic
from jbodlab.controller_api.requests import NewTopic
from jbodlab.kafka_wire.api_table import OWN_MESSAGES, ApiKey
from jbodlab.runtime.threads import Threads
from jbodlab.server.answer import Api
from jbodlab.server.dispatch import Dispatcher
from jbodlab.server.helper_thread import HelperThread
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId


class BrokerParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the handlers work with."""

    broker_id: BrokerId
    cluster_id: str
    cache: MetadataCache
    replicas: Replicas
    groups: GroupCoordinators
    controller: Controller
    revival: Revival
    broker_epoch: Callable[[], BrokerEpoch]
    """Epoch of the current registration."""
    threads: Threads
    monotonic_s: Callable[[], float]
    """Clock that goes on while a callback runs."""
    configs: OwnConfigs
    """The settings of this broker."""
    traffic: Traffic
    """What is counted of requests."""
    is_settled: Callable[[], bool] = lambda: True
    """Whether the controller knows what follows from changed settings."""
    auto_create_topics: bool = True
    """Whether a client's Metadata request may create topics."""
    log_dirs: Callable[[], Sequence[LogDir]] = tuple
    """The directories of `log.dirs`, offline ones included."""
    internal_topic: Callable[[str], NewTopic | None] = lambda _name: None
    """How a topic of the brokers' own is to be created."""


class ClientApis:
    """All handlers, and the dispatcher in front of them.

    Attributes:
        dispatcher: Gets the requests of all connections.
        passing_on: Follows the metadata.
    """

    def __init__(self, parts: BrokerParts) -> None:
        self._topic_creator = TopicCreator(parts.controller, parts.internal_topic)
        self._producer_ids = ProducerIds(parts.controller, parts.broker_id, parts.broker_epoch)
        quotas = ClientQuotas(lambda: parts.cache.image.quotas)
        self.passing_on = PassingOn(parts.replicas, parts.cache, parts.broker_id, parts.monotonic_s)
        apis = _apis(parts, self._topic_creator, self._producer_ids, self.passing_on, quotas)
        apis[ApiKey.API_VERSIONS] = ApiVersionsApi(
            {*apis, ApiKey.API_VERSIONS} - OWN_MESSAGES.keys(), parts.cache
        )
        self._thread = HelperThread(parts.threads, "large-requests")
        measured: dict[int, Api] = {
            key: MeasuredApi(api, key, parts.traffic, quotas, parts.cache)
            for key, api in apis.items()
        }
        self.dispatcher = Dispatcher(measured, self._thread, parts.monotonic_s)

    async def close(self) -> None:
        """Give up calls to the controller that no client waits for."""
        await self._topic_creator.close()
        self.passing_on.close()
        self._thread.close()
        await self._producer_ids.close()


def _apis(
    parts: BrokerParts,
    topic_creator: TopicCreator,
    producer_ids: ProducerIds,
    passing_on: PassingOn,
    quotas: ClientQuotas,
) -> dict[ApiKey, Api]:
    cache, replicas, controller = parts.cache, parts.replicas, parts.controller
    groups, acls = parts.groups, AclsApi()
    auto_creator = topic_creator if parts.auto_create_topics else None
    altering = (controller, cache, parts.broker_id, parts.configs, parts.is_settled)
    return {
        ApiKey.PRODUCE: ProduceApi(passing_on, cache, parts.broker_id, parts.traffic, quotas),
        ApiKey.FETCH: FetchApi(replicas, cache, parts.broker_id, parts.traffic, quotas),
        ApiKey.LIST_OFFSETS: ListOffsetsApi(replicas, cache),
        ApiKey.METADATA: MetadataApi(cache, parts.cluster_id, auto_creator),
        ApiKey.OFFSET_COMMIT: OffsetCommitApi(groups, cache),
        ApiKey.OFFSET_FETCH: OffsetFetchApi(groups, cache),
        ApiKey.FIND_COORDINATOR: FindCoordinatorApi(cache, parts.broker_id, groups, topic_creator),
        ApiKey.JOIN_GROUP: JoinGroupApi(groups),
        ApiKey.HEARTBEAT: HeartbeatApi(groups),
        ApiKey.LEAVE_GROUP: LeaveGroupApi(groups),
        ApiKey.SYNC_GROUP: SyncGroupApi(groups),
        ApiKey.DESCRIBE_GROUPS: DescribeGroupsApi(groups),
        ApiKey.LIST_GROUPS: ListGroupsApi(groups),
        ApiKey.DELETE_GROUPS: DeleteGroupsApi(groups),
        ApiKey.OFFSET_DELETE: OffsetDeleteApi(groups, cache),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatApi(groups, cache),
        ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeApi(groups),
        ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatApi(),
        ApiKey.CREATE_TOPICS: CreateTopicsApi(controller, cache),
        ApiKey.DELETE_TOPICS: DeleteTopicsApi(controller, cache),
        ApiKey.DELETE_RECORDS: DeleteRecordsApi(replicas),
        ApiKey.DESCRIBE_PRODUCERS: DescribeProducersApi(replicas),
        ApiKey.INIT_PRODUCER_ID: InitProducerIdApi(producer_ids),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochApi(replicas),
        ApiKey.DESCRIBE_ACLS: acls,
        ApiKey.CREATE_ACLS: acls,
        ApiKey.DELETE_ACLS: acls,
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsApi(cache, parts.broker_id, parts.configs),
        ApiKey.ALTER_CONFIGS: AlterConfigsApi(*altering),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsApi(*altering),
        ApiKey.LIST_CONFIG_RESOURCES: ListConfigResourcesApi(cache),
        ApiKey.ALTER_REPLICA_LOG_DIRS: AlterReplicaLogDirsApi(replicas),
        ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsApi(replicas),
        ApiKey.CREATE_PARTITIONS: CreatePartitionsApi(controller, cache),
        ApiKey.ELECT_LEADERS: ElectLeadersApi(controller, cache),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: AlterPartitionReassignmentsApi(controller, cache),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsApi(controller),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: DescribeClientQuotasApi(cache),
        ApiKey.ALTER_CLIENT_QUOTAS: AlterClientQuotasApi(controller, cache),
        ApiKey.DESCRIBE_QUORUM: DescribeQuorumApi(controller, cache),
        ApiKey.UPDATE_FEATURES: UpdateFeaturesApi(controller, cache),
        ApiKey.UNREGISTER_BROKER: UnregisterBrokerApi(controller, cache),
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterApi(cache, parts.cluster_id),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsApi(cache),
        ApiKey.REVIVE_LOG_DIR: BrokersOnly(ReviveLogDirApi(parts.revival), cache),
        ApiKey.DESCRIBE_LOG_DIR_STATES: BrokersOnly(DescribeLogDirStatesApi(parts.log_dirs), cache),
    }
