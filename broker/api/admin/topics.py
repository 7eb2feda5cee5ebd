"""CreateTopics and DeleteTopics: passed on to the controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from broker.api.admin.controller_call import Deadline
from broker.api.admin.mutations import mutator, told_to_wait
from broker.api.ports import Controller
from broker.metadata_cache import MetadataCache
from jbodlab.controller_api.requests import (
    RECORDS_PER_REQUEST_MAX,
    TOO_LARGE,
    CreatedTopic,
    CreateTopicsRequest,
    DeletedTopic,
    DeleteTopicsRequest,
    NewTopic,
    TopicToDelete,
)
from jbodlab.server.answer import Later, RequestContext, in_background, milliseconds
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, TopicId

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic
    from kio.schema.create_topics.v7.request import CreateTopicsRequest as KafkaCreateTopicsRequest
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest as KafkaDeleteTopicsRequest

NAMES_OR_IDS_FROM = 6
"""DeleteTopics names topics by name or id from this version on."""

RECORDS_PER_TOPIC = 2
"""At least: of the topic and of its first partition."""


class CreatableTopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One effective setting of a created topic."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool


class CreatableTopicResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one topic; counts are -1 on an error."""

    name: str
    topic_id: UUID | None = None
    error_code: ErrorCode
    error_message: str | None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatableTopicConfig, ...] | None = ()


class CreateTopicsResponse(Response, frozen=True, kw_only=True):
    """One entry for each topic asked for."""

    topics: tuple[CreatableTopicResult, ...]


class DeletableTopicResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one topic."""

    name: str | None
    topic_id: UUID | None = None
    error_code: ErrorCode
    error_message: str | None


class DeleteTopicsResponse(Response, frozen=True, kw_only=True):
    """One entry for each topic asked for."""

    responses: tuple[DeletableTopicResult, ...]


class CreateTopicsApi(FailsBySchema):
    """Creates topics; any broker takes the request."""

    def __init__(self, controller: Controller, cache: MetadataCache) -> None:
        self._controller = controller
        self._cache = cache

    def answer(self, request: KafkaCreateTopicsRequest, context: RequestContext) -> Later:
        """Ask the controller, and wait until this broker knows the new topics."""
        _check_count(len(request.topics), RECORDS_PER_TOPIC)
        return in_background(self._create(request, context))

    async def _create(
        self, request: KafkaCreateTopicsRequest, context: RequestContext
    ) -> CreateTopicsResponse:
        deadline = Deadline(request.timeout)
        response = await deadline.call(
            self._controller.create_topics,
            CreateTopicsRequest(
                topics=tuple(map(_new_topic, request.topics)),
                timeout_ms=milliseconds(request.timeout),
                validate_only=request.validate_only,
                mutator=mutator(context),
            ),
        )
        if not request.validate_only:
            await deadline.wait_for(lambda: self._are_here(response.topics))
        return CreateTopicsResponse(
            topics=tuple(map(_created, response.topics)),
            throttle_time=told_to_wait(context, response.throttle_time_ms),
        )

    def _are_here(self, topics: Iterable[CreatedTopic]) -> bool:
        by_id = self._cache.image.topics.by_id
        return all(
            topic.topic_id in by_id for topic in topics if topic.error_code == ErrorCode.NONE
        )


class DeleteTopicsApi(FailsBySchema):
    """Deletes topics; any broker takes the request."""

    def __init__(self, controller: Controller, cache: MetadataCache) -> None:
        self._controller = controller
        self._cache = cache

    def answer(self, request: KafkaDeleteTopicsRequest, context: RequestContext) -> Later:
        """Ask the controller, and wait until this broker has forgotten the topics."""
        wanted = _to_delete(request, context.version)
        _check_count(len(wanted), 1)
        return in_background(self._delete(request, context, wanted))

    async def _delete(
        self,
        request: KafkaDeleteTopicsRequest,
        context: RequestContext,
        wanted: tuple[TopicToDelete, ...],
    ) -> DeleteTopicsResponse:
        deadline = Deadline(request.timeout)
        by_name = self._cache.image.topics.by_name
        response = await deadline.call(
            self._controller.delete_topics,
            DeleteTopicsRequest(
                topics=wanted,
                timeout_ms=milliseconds(request.timeout),
                mutator=mutator(context),
            ),
        )
        deleted = [result for result in response.responses if result.error_code == ErrorCode.NONE]
        # A topic of the same name may exist again by the time that we look, with another id.
        ids = {topic.topic_id for topic in deleted if topic.topic_id is not None}
        names = {topic.name for topic in deleted}
        ids |= {topic.topic_id for name, topic in by_name.items() if name in names}
        await deadline.wait_for(lambda: ids.isdisjoint(self._cache.image.topics.by_id))
        return DeleteTopicsResponse(
            responses=tuple(map(_deleted, response.responses)),
            throttle_time=told_to_wait(context, response.throttle_time_ms),
        )


def _check_count(topics: int, records_each: int) -> None:
    """Refuse at once what the controller would: to take it there takes long.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if topics * records_each > RECORDS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            (assignment.partition_index, tuple(map(BrokerId, assignment.broker_ids)))
            for assignment in topic.assignments
        ),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


def _created(topic: CreatedTopic) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=topic.error_code,
        error_message=topic.error_message or None,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=tuple(
            CreatableTopicConfig(
                name=config.name,
                value=config.value,
                read_only=config.read_only,
                config_source=config.config_source,
                is_sensitive=config.is_sensitive,
            )
            for config in topic.configs
        ),
    )


def _to_delete(request: KafkaDeleteTopicsRequest, version: int) -> tuple[TopicToDelete, ...]:
    if version < NAMES_OR_IDS_FROM:
        names: tuple[str, ...] = request.topic_names  # type: ignore[attr-defined]  # versions to 5
        return tuple(TopicToDelete(name=name) for name in names)
    return tuple(
        TopicToDelete(
            name=topic.name,
            topic_id=None if topic.topic_id is None else TopicId(topic.topic_id),
        )
        for topic in request.topics
    )


def _deleted(topic: DeletedTopic) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=topic.error_code,
        error_message=topic.error_message or None,
    )
