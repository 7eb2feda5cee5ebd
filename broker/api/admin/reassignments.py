"""AlterPartitionReassignments and ListPartitionReassignments: passed on to the controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from broker.api.admin.controller_call import Deadline
from broker.api.ports import Controller
from broker.metadata_cache import MetadataCache
from jbodlab.controller_api.requests import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    OngoingReassignment,
    PartitionToReassign,
    ReassignmentResult,
)
from jbodlab.server.answer import Later, RequestContext, in_background, milliseconds
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest as KafkaAlterRequest,
    )
    from kio.schema.list_partition_reassignments.v0.request import (
        ListPartitionReassignmentsRequest as KafkaListRequest,
    )


class ReassignablePartitionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one partition."""

    partition_index: int
    error_code: ErrorCode
    error_message: str | None


class ReassignableTopicResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one topic."""

    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


class AlterPartitionReassignmentsResponse(Response, frozen=True, kw_only=True):
    """Results for the partitions; empty on a top-level error."""

    allow_replication_factor_change: bool = True
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()


class OngoingPartitionReassignment(msgspec.Struct, frozen=True, kw_only=True):
    """A partition under way; `replicas` has those that stay, come and go."""

    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class OngoingTopicReassignment(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one topic that are under way."""

    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


class ListPartitionReassignmentsResponse(Response, frozen=True, kw_only=True):
    """What is under way."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()


class AlterPartitionReassignmentsApi(FailsBySchema):
    """Gives partitions to other brokers, or cancels that; any broker takes the request."""

    def __init__(self, controller: Controller, cache: MetadataCache) -> None:
        self._controller = controller
        self._cache = cache

    def answer(self, request: KafkaAlterRequest, context: RequestContext) -> Later:
        """Ask the controller, and wait until this broker knows what it decided."""
        return in_background(self._alter(request))

    async def _alter(self, request: KafkaAlterRequest) -> AlterPartitionReassignmentsResponse:
        deadline = Deadline(request.timeout)
        wishes = tuple(
            PartitionToReassign(
                topic=topic.name,
                partition=each.partition_index,
                replicas=None if each.replicas is None else tuple(map(BrokerId, each.replicas)),
            )
            for topic in request.topics
            for each in topic.partitions
        )
        response = await deadline.call(
            self._controller.alter_partition_reassignments,
            AlterPartitionReassignmentsRequest(
                partitions=wishes,
                allow_replication_factor_change=_allows_factor_change(request),
                timeout_ms=milliseconds(request.timeout),
            ),
        )
        done = {(r.topic, r.partition) for r in response.results if r.error_code == ErrorCode.NONE}
        accepted = [wish for wish in wishes if (wish.topic, wish.partition) in done]
        await deadline.wait_for(lambda: all(map(self._is_here, accepted)))
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=_allows_factor_change(request),
            error_code=response.error_code,
            error_message=response.error_message or None,
            responses=_by_topic(response.results),
        )

    def _is_here(self, wish: PartitionToReassign) -> bool:
        """Return whether this broker's metadata has what was decided for a partition."""
        topic = self._cache.image.topics.by_name.get(wish.topic)
        state = None if topic is None else topic.partitions.get(wish.partition)
        if state is None:
            return True
        if wish.replicas is None:
            return not state.adding_replicas and not state.removing_replicas
        target = [each for each in state.replicas if each not in state.removing_replicas]
        return target == list(wish.replicas)


class ListPartitionReassignmentsApi(FailsBySchema):
    """Tells what is under way; any broker takes the request."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def answer(self, request: KafkaListRequest, context: RequestContext) -> Later:
        """Ask the controller, which knows it first."""
        return in_background(self._list(request))

    async def _list(self, request: KafkaListRequest) -> ListPartitionReassignmentsResponse:
        asked = None
        if request.topics is not None:
            asked = tuple(
                (str(topic.name), int(index))
                for topic in request.topics
                for index in topic.partition_indexes
            )
        response = await Deadline(request.timeout).call(
            self._controller.list_partition_reassignments,
            ListPartitionReassignmentsRequest(topic_partitions=asked),
        )
        return ListPartitionReassignmentsResponse(
            error_code=response.error_code,
            error_message=response.error_message or None,
            topics=_ongoing(response.reassignments),
        )


def _allows_factor_change(request: KafkaAlterRequest) -> bool:
    """Return whether targets may have another size; version 0 cannot say no."""
    return bool(getattr(request, "allow_replication_factor_change", True))


def _by_topic(results: Iterable[ReassignmentResult]) -> tuple[ReassignableTopicResponse, ...]:
    topics: dict[str, list[ReassignablePartitionResponse]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(
            ReassignablePartitionResponse(
                partition_index=result.partition,
                error_code=result.error_code,
                error_message=result.error_message or None,
            )
        )
    return tuple(
        ReassignableTopicResponse(name=topic, partitions=tuple(partitions))
        for topic, partitions in topics.items()
    )


def _ongoing(found: Iterable[OngoingReassignment]) -> tuple[OngoingTopicReassignment, ...]:
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for each in found:
        topics.setdefault(each.topic, []).append(
            OngoingPartitionReassignment(
                partition_index=each.partition,
                replicas=each.replicas,
                adding_replicas=each.adding_replicas,
                removing_replicas=each.removing_replicas,
            )
        )
    return tuple(
        OngoingTopicReassignment(name=topic, partitions=tuple(partitions))
        for topic, partitions in topics.items()
    )
