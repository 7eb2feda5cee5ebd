"""DescribeCluster: the brokers of the cluster, fenced ones too if asked for (KIP-1073)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from broker.api.parts import ApiParts
from broker.metadata_cache import MetadataCache
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.api import Api
from jbodlab.server.authorized_operations import NOT_ASKED_FOR
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import Elsewhere, on_cluster
from jbodlab.server.response import Response
from jbodlab.server.rights import Rights, operations_on_cluster
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

BROKERS, CONTROLLERS = 1, 2
"""Endpoint types."""


class DescribeClusterBroker(msgspec.Struct, frozen=True, kw_only=True):
    """One broker, at its address of the listener that was asked."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class DescribeClusterResponse(Response, frozen=True, kw_only=True):
    """The cluster; its controller is a live broker, which forwards what it is asked."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    endpoint_type: int = BROKERS
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: int = NOT_ASKED_FOR


class DescribeClusterApi(FailsBySchema):
    """Answers from the metadata cache."""

    def __init__(self, cache: MetadataCache, cluster_id: str, rights: Rights) -> None:
        self._cache = cache
        self._cluster_id = cluster_id
        self._rights = rights

    def answer(
        self, request: DescribeClusterRequest, context: RequestContext
    ) -> DescribeClusterResponse:
        """List the brokers."""
        endpoint_type = getattr(request, "endpoint_type", BROKERS)
        if endpoint_type == CONTROLLERS:
            raise KafkaError(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "the request was sent to a broker instead of a controller",
            )
        if endpoint_type != BROKERS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"unsupported endpoint type {endpoint_type}"
            )
        include_fenced = getattr(request, "include_fenced_brokers", False)
        return DescribeClusterResponse(
            cluster_id=self._cluster_id,
            controller_id=self._cache.controller_id(),
            brokers=tuple(self._brokers(context.listener_name, include_fenced=include_fenced)),
            cluster_authorized_operations=operations_on_cluster(
                self._rights,
                context.session,
                is_asked=request.include_cluster_authorized_operations,
            ),
        )

    def _brokers(self, listener_name: str, *, include_fenced: bool) -> list[DescribeClusterBroker]:
        brokers = self._cache.image.cluster.brokers
        return [
            DescribeClusterBroker(
                broker_id=broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=brokers[broker_id].rack,
                is_fenced=brokers[broker_id].fenced,
            )
            for broker_id in sorted(brokers)
            for endpoint in brokers[broker_id].endpoints
            if endpoint.name == listener_name and (include_fenced or not brokers[broker_id].fenced)
        ]


APIS: tuple[Api[ApiParts], ...] = (
    Api(
        key=ApiKey.DESCRIBE_CLUSTER,
        versions=(0, 2),
        resources=Elsewhere(on_cluster(AclOperation.DESCRIBE)),
        handler=lambda parts: DescribeClusterApi(parts.cache, parts.cluster_id, parts.rights),
    ),
)
