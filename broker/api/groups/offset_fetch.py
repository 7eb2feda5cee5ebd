"""OffsetFetch: what groups have committed, those of many shards in one answer.

Two Python clients end when they hear that a coordinator is not available; where that is meant they
are told to look for the coordinator again. A partition that does not exist has no offset, and no
error: Java's consumer would end on one.

Source: `kafka.server.KafkaApis.handleOffsetFetchRequest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from broker.api.parts import ApiHandler, serves
from broker.groups import requests, responses
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.request_values import value_of
from jbodlab.server.resources import Elsewhere, Resource, all_of, on_group, on_groups, on_topics
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.server.rights import client_of
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicId

if TYPE_CHECKING:
    from kio.schema.offset_fetch.v9.request import OffsetFetchRequest

IsHidden = Callable[[str], bool]
"""Whether a client may not know of a topic."""

BATCHED_FROM = 8
TOPIC_IDS_FROM = 10


OFFSET_FETCH = ResponseStructs(ApiKey.OFFSET_FETCH, 10, 9, 7)


def _of_the_only_group(request: Any) -> Iterable[Resource]:
    if not hasattr(request, "groups"):
        yield from on_group(AclOperation.DESCRIBE)(request)


def _topics(request: Any) -> Iterable[Resource]:
    """Return the topics that are named for each of the groups."""
    for group in request.groups if hasattr(request, "groups") else (request,):
        yield from on_topics(AclOperation.DESCRIBE)(group)


@serves(
    ApiKey.OFFSET_FETCH,
    (1, 10),
    all_of(_of_the_only_group, on_groups(AclOperation.DESCRIBE), Elsewhere(_topics)),
)
class OffsetFetchApi(ApiHandler):
    """Tells committed offsets, of topics that the client may describe."""

    def answer(self, request: OffsetFetchRequest, context: RequestContext) -> Later:
        """Ask the coordinator of every group."""
        asked = _groups(request, context.version)
        futures = [self._ask(group, request, context.version) for group in asked]
        client = client_of(context.session)

        def is_hidden(name: str) -> bool:
            if not self._parts.rights.is_enforced:
                return False
            topic = Resource(ResourceType.TOPIC, name, AclOperation.DESCRIBE)
            return not self._parts.rights.allows(client, topic, is_asked_for=False)

        def finish(found: list[Any]) -> Response:
            return _response(
                self._told(group, each, context.version, is_hidden)
                for group, each in zip(asked, found, strict=True)
            )

        return Later(asyncio.gather(*futures, return_exceptions=True), finish)

    def failure(
        self, request: OffsetFetchRequest, context: RequestContext, error: KafkaError
    ) -> Response:
        """Return the error for every group."""
        return _response(
            self._told(group, error, context.version, lambda _: False)
            for group in _groups(request, context.version)
        )

    def _ask(self, group: Any, request: Any, version: int) -> asyncio.Future[Any]:
        topics = None if group.topics is None else tuple(self._named(group.topics, version))
        is_stable = getattr(request, "require_stable", False)
        given = {"topics": topics, "require_stable": is_stable}
        fetch = value_of(requests.OffsetFetch, group, given)
        try:
            return self._parts.groups.submit(group.group_id, fetch)
        except KafkaError as error:
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed

    def _named(self, topics: Iterable[Any], version: int) -> Iterable[requests.NamedPartitions]:
        for topic in topics:
            name = self._name(topic, version)
            if name is not None:
                yield requests.NamedPartitions(name, tuple(topic.partition_indexes))

    def _name(self, topic: Any, version: int) -> str | None:
        if version < TOPIC_IDS_FROM:
            name: str = topic.name
            return name
        return (
            None
            if topic.topic_id is None
            else self._parts.cache.topic_name(TopicId(topic.topic_id))
        )

    def _told(self, group: Any, found: Any, version: int, is_hidden: IsHidden) -> Any:
        """Return what is known of one group, its topics in the order of the request."""
        if isinstance(found, KafkaError):
            found = responses.OffsetFetchResponse(group_id=group.group_id, error_code=found.code)
        elif isinstance(found, BaseException):
            raise found
        code = found.error_code
        if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            code = ErrorCode.NOT_COORDINATOR
        if group.topics is None:
            topics = tuple(
                topic for topic in self._all_topics(found, version) if not is_hidden(topic.name)
            )
        elif code is not ErrorCode.NONE and version >= BATCHED_FROM:
            topics = ()
        else:
            known = {topic.name: topic for topic in found.topics}
            topics = tuple(
                self._topic(each, known, code, version, is_hidden) for each in group.topics
            )
        return OFFSET_FETCH.OffsetFetchResponseGroup(
            group_id=group.group_id, topics=topics, error_code=code
        )

    def _all_topics(self, found: responses.OffsetFetchResponse, version: int) -> Iterable[Any]:
        for topic in found.topics:
            topic_id = self._parts.cache.topic_id(topic.name)
            if version < TOPIC_IDS_FROM or topic_id is not None:
                yield _told_topic(topic.name, topic_id, topic.partitions)

    def _topic(
        self,
        asked: Any,
        known: dict[str, Any],
        code: ErrorCode,
        version: int,
        is_hidden: IsHidden,
    ) -> Any:
        name = self._name(asked, version)
        if name is not None and is_hidden(name):
            code, known = ErrorCode.TOPIC_AUTHORIZATION_FAILED, {}
        found = None if name is None else known.get(name)
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        partitions = (
            tuple(
                responses.FetchedOffset(index, error_code=code) for index in asked.partition_indexes
            )
            if found is None
            else found.partitions
        )
        return _told_topic(name or "", getattr(asked, "topic_id", None), partitions)


def _groups(request: Any, version: int) -> tuple[Any, ...]:
    return tuple(request.groups) if version >= BATCHED_FROM else (request,)


def _told_topic(name: str, topic_id: UUID | None, partitions: Sequence[Any]) -> Any:
    return OFFSET_FETCH.OffsetFetchResponseTopics(
        name=name, topic_id=topic_id, partitions=partitions
    )


def _response(groups: Iterable[Any]) -> Response:
    """Return one entry for each group; versions before 8 have one, and its fields themselves."""
    told = tuple(groups)
    first = {"topics": told[0].topics, "error_code": told[0].error_code} if told else {}
    return OFFSET_FETCH.response(groups=told, **first)
