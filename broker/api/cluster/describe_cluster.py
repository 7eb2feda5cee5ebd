"""DescribeCluster: the brokers of the cluster, fenced ones too if asked for (KIP-1073)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import Elsewhere, on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.server.rights import operations_on_cluster
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

DESCRIBE_CLUSTER = ResponseStructs(ApiKey.DESCRIBE_CLUSTER, 2)

BROKERS, CONTROLLERS = 1, 2
"""Endpoint types."""


@serves(ApiKey.DESCRIBE_CLUSTER, (0, 2), Elsewhere(on_cluster(AclOperation.DESCRIBE)))
class DescribeClusterApi(ApiHandler, FailsBySchema):
    """Answers from the metadata cache."""

    def answer(self, request: DescribeClusterRequest, context: RequestContext) -> Response:
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
        return DESCRIBE_CLUSTER.response(
            cluster_id=self._parts.cluster_id,
            controller_id=self._parts.cache.controller_id(),
            brokers=tuple(self._brokers(context.listener_name, include_fenced=include_fenced)),
            cluster_authorized_operations=operations_on_cluster(
                self._parts.rights,
                context.session,
                is_asked=request.include_cluster_authorized_operations,
            ),
        )

    def _brokers(self, listener_name: str, *, include_fenced: bool) -> list[Any]:
        brokers = self._parts.cache.image.cluster.brokers
        return [
            DESCRIBE_CLUSTER.DescribeClusterBroker(
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
