"""The APIs whose answers the controller gives, and those that say that there is no authorizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.api.admin.acls import AclsApi
from broker.api.admin.alter_configs import AlterConfigsApi
from broker.api.admin.client_quotas import DescribeClientQuotasApi
from broker.api.admin.forwarded import FORWARDED
from broker.api.admin.forwarding import ForwardedApi
from broker.api.parts import ApiParts
from jbodlab.controller_api.requests import AlterConfigsRequest, IncrementalAlterConfigsRequest
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.api import MAX_CHANGED_ITEMS, Api
from jbodlab.server.resources import AclOperation, Resource, on_cluster, on_configs, on_topics


def _deleted_topics(request: Any) -> Iterable[Resource]:
    """Return the topics; versions before 6 have an array of names."""
    field = "topics" if hasattr(request, "topics") else "topic_names"
    return on_topics(AclOperation.DELETE, field)(request)


def _forwarded(key: ApiKey) -> Callable[[ApiParts], ForwardedApi]:
    return lambda parts: ForwardedApi(FORWARDED[key], parts.controller, parts.cache)


def _altered(
    request: type[AlterConfigsRequest] | type[IncrementalAlterConfigsRequest],
) -> Callable[[ApiParts], AlterConfigsApi]:
    return lambda parts: AlterConfigsApi(
        request, parts.controller, parts.cache, parts.broker_id, parts.configs, parts.is_settled
    )


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
        handler=_forwarded(ApiKey.CREATE_TOPICS),
    ),
    Api(
        key=ApiKey.DELETE_TOPICS,
        versions=(1, 6),
        max_items=MAX_CHANGED_ITEMS,
        resources=_deleted_topics,
        handler=_forwarded(ApiKey.DELETE_TOPICS),
    ),
    Api(
        key=ApiKey.CREATE_PARTITIONS,
        versions=(0, 3),
        max_items=MAX_CHANGED_ITEMS,
        resources=on_topics(AclOperation.ALTER),
        handler=_forwarded(ApiKey.CREATE_PARTITIONS),
    ),
    Api(
        key=ApiKey.ELECT_LEADERS,
        versions=(0, 2),
        resources=on_cluster(AclOperation.ALTER),
        handler=_forwarded(ApiKey.ELECT_LEADERS),
    ),
    Api(
        key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        versions=(0, 1),
        resources=on_cluster(AclOperation.ALTER),
        handler=_forwarded(ApiKey.ALTER_PARTITION_REASSIGNMENTS),
    ),
    Api(
        key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        versions=(0, 0),
        resources=on_cluster(AclOperation.DESCRIBE),
        handler=_forwarded(ApiKey.LIST_PARTITION_REASSIGNMENTS),
    ),
    Api(
        key=ApiKey.ALTER_CONFIGS,
        versions=(0, 2),
        max_items=MAX_CHANGED_ITEMS,
        resources=on_configs(AclOperation.ALTER_CONFIGS),
        handler=_altered(AlterConfigsRequest),
    ),
    Api(
        key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        versions=(0, 1),
        max_items=MAX_CHANGED_ITEMS,
        resources=on_configs(AclOperation.ALTER_CONFIGS),
        handler=_altered(IncrementalAlterConfigsRequest),
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
        handler=_forwarded(ApiKey.ALTER_CLIENT_QUOTAS),
    ),
    Api(
        key=ApiKey.DESCRIBE_QUORUM,
        versions=(0, 2),
        resources=on_cluster(AclOperation.DESCRIBE),
        handler=_forwarded(ApiKey.DESCRIBE_QUORUM),
    ),
    Api(
        key=ApiKey.UPDATE_FEATURES,
        versions=(0, 2),
        resources=on_cluster(AclOperation.ALTER),
        handler=_forwarded(ApiKey.UPDATE_FEATURES),
    ),
    Api(
        key=ApiKey.UNREGISTER_BROKER,
        versions=(0, 0),
        resources=on_cluster(AclOperation.ALTER),
        handler=_forwarded(ApiKey.UNREGISTER_BROKER),
    ),
)
