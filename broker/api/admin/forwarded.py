"""The APIs whose requests the controller decides, a row each; see `forwarding`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from msgspec.structs import asdict, replace

from broker.api.admin.alter_configs import AlterConfigsApi
from broker.api.admin.forwarding import Forwarded
from jbodlab.controller_api import requests
from jbodlab.controller_api.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatedTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    FeatureUpdate,
    ListPartitionReassignmentsResponse,
    PartitionToReassign,
    TopicToDelete,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.request_values import Given
from jbodlab.server.resources import Resource
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import METADATA_TOPIC, LeaderEpoch, Offset, TopicId
from jbodlab.vocabulary.limits import MAX_CHANGED_ITEMS

PREFERRED = 0
"""The only election type before version 1."""

UPGRADE, SAFE_DOWNGRADE = 1, 2

NO_QUORUM = DescribeQuorumResponse(
    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    leader_epoch=LeaderEpoch(-1),
    high_watermark=Offset(-1),
)
"""Of any partition but the one of the metadata log."""


def _without_configs(response: CreateTopicsResponse, may: Callable[[Resource], bool]) -> Given:
    def shown(topic: CreatedTopic) -> object:
        configs = Resource(ResourceType.TOPIC, topic.name, AclOperation.DESCRIBE_CONFIGS)
        if topic.error_code is not ErrorCode.NONE or may(configs):
            return topic
        return SimpleNamespace(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=topic.error_code,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=(),
        )

    return {"topics": tuple(map(shown, response.topics))}


def _to_delete(request: Any) -> Given:
    if hasattr(request, "topics"):
        return {}
    # Names alone before version 6.
    return {"topics": tuple(TopicToDelete(name=name) for name in request.topic_names)}


def _with_ids(request: CreateTopicsRequest, new_id: Callable[[], UUID]) -> CreateTopicsRequest:
    topics = (replace(each, topic_id=TopicId(new_id())) for each in request.topics)
    return replace(request, topics=tuple(topics))


def _delete_again(request: DeleteTopicsRequest, image: MetadataImage) -> DeleteTopicsRequest:
    """Name topics by their ids too: another one may have got the name of a deleted one."""

    def identified(topic: TopicToDelete) -> TopicToDelete:
        known = image.topics.by_name.get(topic.name or "")
        return topic if known is None else replace(topic, topic_id=known.topic_id)

    return replace(request, topics=tuple(map(identified, request.topics)), is_again=True)


def _again(request: Any, _: MetadataImage) -> Any:
    return replace(request, is_again=True)


def _to_elect(request: Any) -> Given:
    return {
        "election_type": getattr(request, "election_type", PREFERRED),
        "topic_partitions": _named(request.topic_partitions, "topic", "partitions"),
    }


def _elected(_: object, response: ElectLeadersResponse, image: MetadataImage) -> Given:
    topics = _by_topic(response.results, "topic", "partition_result", "partition_id")
    return {"replica_election_results": topics}


def _to_reassign(request: Any) -> Given:
    return {
        "partitions": tuple(
            PartitionToReassign(
                topic=topic.name, partition=each.partition_index, replicas=each.replicas
            )
            for topic in request.topics
            for each in topic.partitions
        )
    }


def _reassigned(
    request: Any, response: AlterPartitionReassignmentsResponse, image: MetadataImage
) -> Given:
    return {
        # Version 0 cannot say no.
        "allow_replication_factor_change": getattr(
            request, "allow_replication_factor_change", True
        ),
        "responses": _by_topic(response.results, "name", "partitions", "partition_index"),
    }


def _to_list(request: Any) -> Given:
    return {"topic_partitions": _named(request.topics, "name", "partition_indexes")}


def _listed(_: object, response: ListPartitionReassignmentsResponse, image: MetadataImage) -> Given:
    found = response.reassignments
    return {"topics": _by_topic(found, "name", "partitions", "partition_index")}


def _credentials_failed(
    request: requests.AlterUserScramCredentialsRequest, error: KafkaError
) -> requests.AlterUserScramCredentialsResponse:
    """Return the error for every user."""
    users = dict.fromkeys(each.name for each in request.deletions)
    users |= dict.fromkeys(each.name for each in request.upsertions)
    return requests.AlterUserScramCredentialsResponse(
        results=tuple(
            requests.AlteredUserScramCredentials(
                user=user, error_code=error.code, error_message=error.message
            )
            for user in users
        )
    )


def _levels(request: Any) -> Given:
    return {"feature_updates": tuple(map(_level, request.feature_updates))}


def _level(update: Any) -> FeatureUpdate:
    # Version 0 says only whether the level may be lower.
    may_lower = getattr(update, "allow_downgrade", False)
    return FeatureUpdate(
        feature=update.feature,
        max_version_level=update.max_version_level,
        upgrade_type=getattr(update, "upgrade_type", SAFE_DOWNGRADE if may_lower else UPGRADE),
    )


def _updated(request: Any, response: UpdateFeaturesResponse, image: MetadataImage) -> Given:
    # Not sent since version 2.
    return {
        "results": tuple(
            SimpleNamespace(feature=update.feature, error_code=ErrorCode.NONE)
            for update in request.feature_updates
        )
    }


def _quorum(request: Any, response: DescribeQuorumResponse, image: MetadataImage) -> Given:
    return {
        "topics": tuple(
            SimpleNamespace(
                topic_name=topic.topic_name,
                partitions=tuple(
                    _quorum_of(topic.topic_name, each.partition_index, response)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
        "nodes": tuple(
            SimpleNamespace(node_id=each.controller_id, listeners=each.end_points)
            for each in image.cluster.controllers.values()
        ),
    }


def _quorum_of(topic: str, partition: int, quorum: DescribeQuorumResponse) -> SimpleNamespace:
    found = quorum if (topic, partition) == (METADATA_TOPIC, 0) else NO_QUORUM
    return SimpleNamespace(partition_index=partition, **asdict(found))


def _accepted(results: Iterable[Any]) -> list[Any]:
    return [each for each in results if each.error_code == ErrorCode.NONE]


def _named(
    topics: Iterable[Any] | None, name: str, partitions: str
) -> tuple[tuple[str, int], ...] | None:
    """Return what an array of topics names; None, which asks for everything, for none."""
    if topics is None:
        return None
    return tuple(
        (getattr(topic, name), index) for topic in topics for index in getattr(topic, partitions)
    )


def _by_topic(results: Iterable[Any], name: str, partitions: str, index: str) -> list[Any]:
    """Group results of partitions as Kafka does; named are the fields of its arrays."""
    topics: dict[str, list[SimpleNamespace]] = {}
    for each in results:
        row = SimpleNamespace(**asdict(each), **{index: each.partition})
        topics.setdefault(each.topic, []).append(row)
    return [SimpleNamespace(**{name: topic, partitions: rows}) for topic, rows in topics.items()]


ROWS: tuple[Forwarded[Any, Any], ...] = (
    Forwarded(
        key=ApiKey.CREATE_TOPICS,
        versions=(2, 7),
        request=CreateTopicsRequest,
        hidden=_without_configs,
        drawn=_with_ids,
        # A topic and its first partition are a record each.
        records_each=2,
        max_items=MAX_CHANGED_ITEMS,
    ),
    Forwarded(
        key=ApiKey.DELETE_TOPICS,
        versions=(1, 6),
        request=DeleteTopicsRequest,
        asked=_to_delete,
        again=_delete_again,
        records_each=1,
        max_items=MAX_CHANGED_ITEMS,
    ),
    Forwarded(
        key=ApiKey.CREATE_PARTITIONS,
        versions=(0, 3),
        request=CreatePartitionsRequest,
        again=_again,
        max_items=MAX_CHANGED_ITEMS,
    ),
    Forwarded(
        key=ApiKey.ELECT_LEADERS,
        versions=(0, 2),
        request=ElectLeadersRequest,
        asked=_to_elect,
        told=_elected,
        fails_everywhere=True,
    ),
    Forwarded(
        key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        versions=(0, 1),
        request=AlterPartitionReassignmentsRequest,
        asked=_to_reassign,
        told=_reassigned,
        fails_everywhere=True,
    ),
    Forwarded(
        key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        versions=(0, 0),
        request=requests.ListPartitionReassignmentsRequest,
        asked=_to_list,
        told=_listed,
        fails_everywhere=True,
    ),
    Forwarded(
        key=ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), request=requests.AlterClientQuotasRequest
    ),
    Forwarded(
        key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        versions=(0, 0),
        request=requests.AlterUserScramCredentialsRequest,
        failed=_credentials_failed,
    ),
    Forwarded(
        key=ApiKey.CREATE_ACLS,
        versions=(1, 3),
        request=requests.CreateAclsRequest,
        records_each=1,
        needs_authorizer=True,
        max_items=MAX_CHANGED_ITEMS,
    ),
    Forwarded(
        key=ApiKey.DELETE_ACLS,
        versions=(1, 3),
        request=requests.DeleteAclsRequest,
        needs_authorizer=True,
        max_items=MAX_CHANGED_ITEMS,
    ),
    Forwarded(
        key=ApiKey.UPDATE_FEATURES,
        versions=(0, 2),
        request=UpdateFeaturesRequest,
        asked=_levels,
        told=_updated,
    ),
    Forwarded(key=ApiKey.UNREGISTER_BROKER, versions=(0, 0), request=UnregisterBrokerRequest),
    Forwarded(
        key=ApiKey.ADD_RAFT_VOTER,
        versions=(0, 1),
        request=requests.AddRaftVoterRequest,
        again=_again,
    ),
    Forwarded(
        key=ApiKey.REMOVE_RAFT_VOTER,
        versions=(0, 0),
        request=requests.RemoveRaftVoterRequest,
        again=_again,
    ),
    Forwarded(
        key=ApiKey.DESCRIBE_QUORUM,
        versions=(0, 2),
        request=requests.DescribeQuorumRequest,
        told=_quorum,
    ),
    Forwarded(
        key=ApiKey.ALTER_CONFIGS,
        versions=(0, 2),
        request=requests.AlterConfigsRequest,
        handler=AlterConfigsApi,
        max_items=MAX_CHANGED_ITEMS,
    ),
    Forwarded(
        key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        versions=(0, 1),
        request=requests.IncrementalAlterConfigsRequest,
        handler=AlterConfigsApi,
        max_items=MAX_CHANGED_ITEMS,
    ),
)

APIS = tuple(row.api() for row in ROWS)
