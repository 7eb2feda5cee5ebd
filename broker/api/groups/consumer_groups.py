"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of KIP-848."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.api.parts import ApiHandler, serves
from broker.api.services.coordinators import Each, check_group_id, described, request_of
from broker.groups import requests
from broker.groups.consumer import responses
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.records.features import GROUP_VERSION
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import all_of, on_group, on_groups, on_topics
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.server.rights import operations_on
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition
from jbodlab.vocabulary.kafka_uuid import ZERO_UUID

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
    from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest


HEARTBEAT = ResponseStructs(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


@serves(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    (0, 1),
    all_of(
        on_group(AclOperation.READ),
        # Not one by one: a member has all that it subscribes to, or nothing.
        lambda request: on_topics(AclOperation.DESCRIBE, "subscribed_topic_names")(request),
    ),
)
class ConsumerGroupHeartbeatApi(ApiHandler, FailsBySchema):
    """Takes signs of life, with which members join, leave and confirm what they gave up."""

    def answer(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Later:
        """Take a sign of life."""
        if not self._parts.cache.image.features.levels.get(GROUP_VERSION):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the consumer group protocol is disabled: {GROUP_VERSION} is 0",
            )
        owned = request.topic_partitions
        asked = request_of(
            requests.ConsumerGroupHeartbeat,
            request,
            context,
            topic_partitions=(
                None
                if owned is None
                else tuple(
                    requests.OwnedPartitions(
                        TopicId(each.topic_id or ZERO_UUID), tuple(each.partitions)
                    )
                    for each in owned
                )
            ),
        )
        return Later(self._parts.groups.submit(request.group_id, asked), _told)


def _told(told: responses.ConsumerGroupHeartbeatResponse) -> Response:
    return HEARTBEAT.response(
        member_id=told.member_id,
        member_epoch=told.member_epoch,
        heartbeat_interval=datetime.timedelta(milliseconds=told.heartbeat_interval_ms),
        assignment=None if told.assignment is None else _by_topic(told.assignment),
    )


def _by_topic(partitions: Iterable[TopicIdPartition]) -> responses.MemberAssignment:
    """Return partitions by topic; the response to a member has no names of topics."""
    topics: defaultdict[TopicId, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(partitions):
        topics[topic_id].append(partition)
    return responses.MemberAssignment(
        tuple(responses.AssignedTopic(each, "", tuple(topics[each])) for each in topics)
    )


@serves(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1), on_groups(AclOperation.DESCRIBE, "group_ids"))
class ConsumerGroupDescribeApi(ApiHandler, FailsBySchema):
    """Describes groups of KIP-848; to all others the answer is that there is no such group."""

    def answer(self, request: ConsumerGroupDescribeRequest, context: RequestContext) -> Later:
        """Describe every group; what went wrong for one stands in its entry."""
        for group_id in request.group_ids:
            check_group_id(group_id)
        operations = operations_on(
            self._parts.rights,
            context.session,
            ResourceType.GROUP,
            is_asked=request.include_authorized_operations,
        )

        def request_for(group_ids: tuple[str, ...]) -> requests.Request:
            return requests.ConsumerGroupDescribe(group_ids=group_ids)

        def finish(each: Each) -> responses.ConsumerGroupDescribeResponse:
            groups = described(
                request.group_ids, each, responses.DescribedConsumerGroup, operations
            )
            return responses.ConsumerGroupDescribeResponse(groups=groups)

        return Later(self._parts.groups.submit_each(request.group_ids, request_for), finish)
