"""The requests of tools at the listener of a controller (KIP-919): the quorum, the features.

Another controller asks for ApiVersions, too, before it lets this one vote.

Source: `kafka.server.ControllerApis`, KIP-919, KIP-853, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict, replace

from controller.serve.raft_apis import (
    API_VERSIONS,
    QUORUM_APIS,
    ControllerHandler,
    QuorumParts,
    api_of,
)
from jbodlab.controller_api import requests
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.raft.voters import VoterSet
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.api import Api
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.feature_levels import feature_fields
from jbodlab.server.request_values import value_of
from jbodlab.server.resources import nothing, on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import METADATA_TOPIC, NO_LEADER

DESCRIBE_QUORUM = ResponseStructs(ApiKey.DESCRIBE_QUORUM, 2)
DESCRIBE_CLUSTER = ResponseStructs(ApiKey.DESCRIBE_CLUSTER, 2)
UPDATE_FEATURES = ResponseStructs(ApiKey.UPDATE_FEATURES, 2, 1)

CONTROLLERS = 2
"""The endpoint type that a client asks a controller for."""


class ControllerVersionsApi(FailsBySchema):
    """ApiVersions of a controller: the ranges of its APIs, and features."""

    def __init__(self, apis: Iterable[Api[Any]], parts: QuorumParts) -> None:
        self._parts = parts
        self._response = API_VERSIONS.response(
            api_keys=tuple(
                API_VERSIONS.ApiVersion(
                    api_key=api.key, min_version=api.versions[0], max_version=api.versions[1]
                )
                for api in apis
            )
        )

    def answer(self, request: Any, context: RequestContext) -> Response:
        """Return the ranges and the features of the moment."""
        image = self._parts.image()
        told: Response = replace(
            self._response,
            **feature_fields(
                API_VERSIONS,
                context.version,
                image.features.levels,
                image.offset,
                self._parts.log.kraft_version,
            ),
        )
        return told


class DescribeQuorumApi(ControllerHandler):
    """DescribeQuorum: who votes, who follows, and how far they are."""

    def answer(self, request: Any, context: RequestContext) -> Later:
        """Describe the quorum as this node knows it."""
        return in_background(self._described(request))

    async def _described(self, request: Any) -> Response:
        structs = DESCRIBE_QUORUM
        found = await self._parts.decide(requests.DescribeQuorumRequest())
        return structs.response(
            topics=tuple(
                structs.TopicData(
                    topic_name=topic.topic_name,
                    partitions=tuple(
                        _partition(topic.topic_name, each.partition_index, found)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
            nodes=_nodes(self._parts.log.voters),
        )


def _partition(topic: str, index: int, quorum: requests.DescribeQuorumResponse) -> Any:
    structs = DESCRIBE_QUORUM
    if (topic, index) != (METADATA_TOPIC, 0):
        return structs.PartitionData(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            leader_id=NO_LEADER,
            leader_epoch=-1,
            high_watermark=-1,
        )
    return structs.PartitionData(
        partition_index=index,
        error_code=quorum.error_code,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=tuple(map(_replica, quorum.current_voters)),
        observers=tuple(map(_replica, quorum.observers)),
    )


def _replica(replica: requests.QuorumReplica) -> Any:
    return DESCRIBE_QUORUM.ReplicaState(**asdict(replica))


def _nodes(voters: VoterSet) -> tuple[Any, ...]:
    structs = DESCRIBE_QUORUM
    return tuple(
        structs.Node(
            node_id=voter.voter_id,
            listeners=tuple(
                structs.Listener(name=each.name, host=each.host, port=each.port)
                for each in voter.endpoints
            ),
        )
        for voter in voters.voters
    )


class DescribeControllersApi(ControllerHandler):
    """DescribeCluster: the controllers, of which one is active."""

    def answer(self, request: Any, context: RequestContext) -> Response:
        """List the voters, and other controllers that are registered."""
        if request.endpoint_type != CONTROLLERS:
            raise KafkaError(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "the request was sent to a controller instead of a broker",
            )
        log, image = self._parts.log, self._parts.image()
        registered, voters = image.cluster.controllers, log.voters.voters
        found: dict[int, Iterable[Any]] = {id: each.end_points for id, each in registered.items()}
        found |= {each.voter_id: each.endpoints for each in voters}
        leader_id = log.leader_id
        return DESCRIBE_CLUSTER.response(
            endpoint_type=CONTROLLERS,
            cluster_id=self._parts.cluster_id,
            controller_id=NO_LEADER if leader_id is None else leader_id,
            brokers=tuple(
                DESCRIBE_CLUSTER.DescribeClusterBroker(
                    broker_id=node_id, host=each.host, port=each.port
                )
                for node_id, endpoints in sorted(found.items())
                for each in endpoints
                if each.name == context.listener_name
            ),
        )


class UpdateFeaturesApi(ControllerHandler):
    """UpdateFeatures: levels are raised and lowered."""

    def answer(self, request: Any, context: RequestContext) -> Later:
        """Have the active controller decide."""
        return in_background(self._updated(request))

    async def _updated(self, request: Any) -> Response:
        asked = value_of(requests.UpdateFeaturesRequest, request, {})
        answer = await self._parts.decide(asked)
        if answer.error_code is not ErrorCode.NONE:
            raise KafkaError(answer.error_code, answer.error_message)
        return UPDATE_FEATURES.response(
            results=tuple(
                UPDATE_FEATURES.UpdatableFeatureResult(feature=each.feature)
                for each in asked.feature_updates
            )
        )


APIS: tuple[Api[QuorumParts], ...] = (
    *QUORUM_APIS,
    api_of(ApiKey.DESCRIBE_QUORUM, (0, 2), DescribeQuorumApi, on_cluster(AclOperation.DESCRIBE)),
    api_of(ApiKey.DESCRIBE_CLUSTER, (1, 2), DescribeControllersApi, on_cluster(AclOperation.ALTER)),
    api_of(ApiKey.UPDATE_FEATURES, (1, 2), UpdateFeaturesApi, on_cluster(AclOperation.ALTER)),
    api_of(ApiKey.API_VERSIONS, (0, 4), lambda parts: ControllerVersionsApi(APIS, parts), nothing),
)
