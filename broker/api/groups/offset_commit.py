"""OffsetCommit and OffsetDelete: offsets of a group are kept, or taken away.

Topics that this broker does not know are answered here; the coordinator gets the others. Version 10
of OffsetCommit names them by their ids.

Source: `kafka.server.KafkaApis.handleOffsetCommitRequest`, `handleDeleteGroupsRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from broker.api.parts import ApiHandler, serves
from broker.api.services.coordinators import check_group_id, request_of
from broker.groups import requests
from broker.groups.responses import PartitionResponse
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.image.topics_image import TopicImage, TopicsImage
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Answer, Later, RequestContext
from jbodlab.server.failures import FailsBySchema, refused_elements
from jbodlab.server.request_values import value_of
from jbodlab.server.resources import all_of, on_group, on_topics
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.offset_commit.v9.request import OffsetCommitRequest
    from kio.schema.offset_delete.v0.request import OffsetDeleteRequest

OFFSET_COMMIT = ResponseStructs(ApiKey.OFFSET_COMMIT, 10)
OFFSET_DELETE = ResponseStructs(ApiKey.OFFSET_DELETE, 0)

TOPIC_IDS_FROM = 10


class TopicResult(NamedTuple):
    """The partitions of one topic, named as in the request."""

    name: str
    topic_id: UUID | None
    partitions: tuple[PartitionResponse, ...]


class AskedTopics:
    """The topics of a request, and which partitions of them there are."""

    def __init__(self, topics: Iterable[Any], known: TopicsImage) -> None:
        self._topics = tuple(topics)
        self._found = [_find(topic, known) for topic in self._topics]

    def there(self) -> Iterable[tuple[Any, TopicImage, list[Any]]]:
        """Return topics with the partitions of theirs that exist, where there are any."""
        for topic, found in zip(self._topics, self._found, strict=True):
            if isinstance(found, TopicImage):
                there = [p for p in topic.partitions if p.partition_index in found.partitions]
                if there:
                    yield topic, found, there

    def to_commit(self) -> tuple[requests.CommitTopic, ...]:
        """Return the offsets of a commit, of partitions that exist."""
        return tuple(
            requests.CommitTopic(
                found.name,
                tuple(value_of(requests.CommitPartition, each, {}) for each in partitions),
                found.topic_id,
            )
            for _, found, partitions in self.there()
        )

    def to_delete(self) -> tuple[requests.NamedPartitions, ...]:
        """Return the partitions of a deletion that exist."""
        return tuple(
            requests.NamedPartitions(found.name, tuple(each.partition_index for each in partitions))
            for _, found, partitions in self.there()
        )

    def results(self, codes: Callable[[str, int], ErrorCode]) -> tuple[TopicResult, ...]:
        """Return the result of everything asked for; `codes` knows that of what there is."""
        return tuple(
            TopicResult(
                getattr(topic, "name", ""),
                getattr(topic, "topic_id", None),
                tuple(
                    PartitionResponse(
                        each.partition_index, _code(found, each.partition_index, codes)
                    )
                    for each in topic.partitions
                ),
            )
            for topic, found in zip(self._topics, self._found, strict=True)
        )


@serves(
    ApiKey.OFFSET_COMMIT, (2, 10), all_of(on_group(AclOperation.READ), on_topics(AclOperation.READ))
)
class OffsetCommitApi(ApiHandler):
    """Has offsets kept."""

    # A client that is refused does not learn which partitions there are.
    refused = staticmethod(refused_elements)

    def answer(self, request: OffsetCommitRequest, context: RequestContext) -> Answer:
        """Commit the offsets of partitions that exist."""
        asked = AskedTopics(request.topics, self._parts.cache.image.topics)
        topics = asked.to_commit()
        if not topics:
            return OFFSET_COMMIT.response(topics=asked.results(no_error))
        commit = request_of(requests.OffsetCommit, request, context, topics=topics)
        return Later(
            self._parts.groups.submit(request.group_id, commit),
            lambda done: OFFSET_COMMIT.response(topics=asked.results(codes_of(done))),
        )

    def failure(
        self, request: OffsetCommitRequest, context: RequestContext, error: KafkaError
    ) -> Response:
        """Return the error for every partition that exists; of the others it is known already."""
        asked = AskedTopics(request.topics, self._parts.cache.image.topics)
        return OFFSET_COMMIT.response(topics=asked.results(lambda _topic, _index: error.code))


@serves(
    ApiKey.OFFSET_DELETE,
    (0, 0),
    all_of(on_group(AclOperation.DELETE), on_topics(AclOperation.READ)),
)
class OffsetDeleteApi(ApiHandler, FailsBySchema):
    """Has offsets taken away."""

    def answer(self, request: OffsetDeleteRequest, context: RequestContext) -> Later:
        """Delete the offsets of partitions that exist; the group is looked at in any case."""
        check_group_id(request.group_id)
        asked = AskedTopics(request.topics, self._parts.cache.image.topics)
        delete = request_of(requests.OffsetDelete, request, context, topics=asked.to_delete())
        return Later(
            self._parts.groups.submit(request.group_id, delete),
            lambda done: OFFSET_DELETE.response(topics=asked.results(codes_of(done))),
        )


def _find(topic: Any, known: TopicsImage) -> TopicImage | ErrorCode:
    """Return a topic of a request; an error code where there is no such topic."""
    if hasattr(topic, "name"):
        return known.by_name.get(topic.name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return known.by_id.get(topic.topic_id) or ErrorCode.UNKNOWN_TOPIC_ID


def _code(
    found: TopicImage | ErrorCode, index: int, codes: Callable[[str, int], ErrorCode]
) -> ErrorCode:
    if not isinstance(found, TopicImage):
        return found
    if index not in found.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return codes(found.name, index)


def codes_of(done: Any) -> Callable[[str, int], ErrorCode]:
    """Return what knows the codes of a response of the coordinator."""
    by_partition = {
        (topic.name, each.partition_index): each.error_code
        for topic in done.topics
        for each in topic.partitions
    }
    return lambda topic, index: by_partition[topic, index]


def no_error(_topic: str, _index: int) -> ErrorCode:
    """Return the code of partitions that are not asked about."""
    return ErrorCode.NONE
