"""The APIs whose answers the controller gives, and those that say that there is no authorizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.api.admin.acls import AclsApi
from broker.api.admin.alter_configs import AlterConfigsApi, IncrementalAlterConfigsApi
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
from broker.api.cluster.own_configs import OwnConfigs
from broker.api.parts import ApiParts
from broker.api.ports import Controller
from broker.metadata_cache import MetadataCache
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.api import MAX_CHANGED_ITEMS, Api
from jbodlab.server.resources import AclOperation, Resource, on_cluster, on_configs, on_topics
from jbodlab.vocabulary.ids import BrokerId


def _deleted_topics(request: Any) -> Iterable[Resource]:
    """Return the topics; versions before 6 have an array of names."""
    field = "topics" if hasattr(request, "topics") else "topic_names"
    return on_topics(AclOperation.DELETE, field)(request)


def _altering(
    parts: ApiParts,
) -> tuple[Controller, MetadataCache, BrokerId, OwnConfigs, Callable[[], bool]]:
    return parts.controller, parts.cache, parts.broker_id, parts.configs, parts.is_settled


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.DESCRIBE_ACLS,
        versions=(1, 3),
        resources=on_cluster(AclOperation.DESCRIBE),
        handler=lambda parts: AclsApi(),
    ),
    Api(
        key=ApiKey.CREATE_ACLS,
        versions=(1, 3),
        resources=on_cluster(AclOperation.ALTER),
        handler=lambda parts: AclsApi(),
    ),
    Api(
        key=ApiKey.DELETE_ACLS,
        versions=(1, 3),
        resources=on_cluster(AclOperation.ALTER),
        handler=lambda parts: AclsApi(),
    ),
    Api(
        key=ApiKey.CREATE_TOPICS,
        versions=(2, 7),
        max_items=MAX_CHANGED_ITEMS,
        resources=on_topics(AclOperation.CREATE),
        handler=lambda parts: CreateTopicsApi(parts.controller, parts.cache),
    ),
    Api(
        key=ApiKey.DELETE_TOPICS,
        versions=(1, 6),
        max_items=MAX_CHANGED_ITEMS,
        resources=_deleted_topics,
        handler=lambda parts: DeleteTopicsApi(parts.controller, parts.cache),
    ),
    Api(
        key=ApiKey.CREATE_PARTITIONS,
        versions=(0, 3),
        max_items=MAX_CHANGED_ITEMS,
        resources=on_topics(AclOperation.ALTER),
        handler=lambda parts: CreatePartitionsApi(parts.controller, parts.cache),
    ),
    Api(
        key=ApiKey.ELECT_LEADERS,
        versions=(0, 2),
        resources=on_cluster(AclOperation.ALTER),
        handler=lambda parts: ElectLeadersApi(parts.controller, parts.cache),
    ),
    Api(
        key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        versions=(0, 1),
        resources=on_cluster(AclOperation.ALTER),
        handler=lambda parts: AlterPartitionReassignmentsApi(parts.controller, parts.cache),
    ),
    Api(
        key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        versions=(0, 0),
        resources=on_cluster(AclOperation.DESCRIBE),
        handler=lambda parts: ListPartitionReassignmentsApi(parts.controller),
    ),
    Api(
        key=ApiKey.ALTER_CONFIGS,
        versions=(0, 2),
        max_items=MAX_CHANGED_ITEMS,
        resources=on_configs(AclOperation.ALTER_CONFIGS),
        handler=lambda parts: AlterConfigsApi(*_altering(parts)),
    ),
    Api(
        key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        versions=(0, 1),
        max_items=MAX_CHANGED_ITEMS,
        resources=on_configs(AclOperation.ALTER_CONFIGS),
        handler=lambda parts: IncrementalAlterConfigsApi(*_altering(parts)),
    ),
    Api(
        key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
        versions=(0, 1),
        resources=on_cluster(AclOperation.DESCRIBE_CONFIGS),
        handler=lambda parts: DescribeClientQuotasApi(parts.cache),
    ),
    Api(
        key=ApiKey.ALTER_CLIENT_QUOTAS,
        versions=(0, 1),
        resources=on_cluster(AclOperation.ALTER_CONFIGS),
        handler=lambda parts: AlterClientQuotasApi(parts.controller, parts.cache),
    ),
    Api(
        key=ApiKey.DESCRIBE_QUORUM,
        versions=(0, 2),
        resources=on_cluster(AclOperation.DESCRIBE),
        handler=lambda parts: DescribeQuorumApi(parts.controller, parts.cache),
    ),
    Api(
        key=ApiKey.UPDATE_FEATURES,
        versions=(0, 2),
        resources=on_cluster(AclOperation.ALTER),
        handler=lambda parts: UpdateFeaturesApi(parts.controller, parts.cache),
    ),
    Api(
        key=ApiKey.UNREGISTER_BROKER,
        versions=(0, 0),
        resources=on_cluster(AclOperation.ALTER),
        handler=lambda parts: UnregisterBrokerApi(parts.controller, parts.cache),
    ),
)
