"""CreatePartitions and ElectLeaders: passed on to the controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from broker.api.admin.controller_call import Deadline
from broker.api.admin.mutations import mutator, told_to_wait
from broker.api.ports import Controller
from broker.metadata_cache import MetadataCache
from jbodlab.controller_api.requests import (
    CreatePartitionsRequest,
    ElectionResult,
    ElectLeadersRequest,
    PartitionsToAdd,
)
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.server.answer import Later, RequestContext, in_background, milliseconds
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import (
        CreatePartitionsRequest as KafkaCreatePartitionsRequest,
    )
    from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
    from kio.schema.elect_leaders.v2.request import (
        ElectLeadersRequest as KafkaElectLeadersRequest,
    )

PREFERRED = 0
"""The only election type before version 1."""


class CreatePartitionsTopicResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one topic."""

    name: str
    error_code: ErrorCode
    error_message: str | None


class CreatePartitionsResponse(Response, frozen=True, kw_only=True):
    """One entry for each topic asked for."""

    results: tuple[CreatePartitionsTopicResult, ...]


class PartitionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one partition."""

    partition_id: int
    error_code: ErrorCode
    error_message: str | None


class ReplicaElectionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of one topic."""

    topic: str
    partition_result: tuple[PartitionResult, ...]


class ElectLeadersResponse(Response, frozen=True, kw_only=True):
    """Results for the partitions; empty on a top-level error, which version 0 cannot express."""

    error_code: ErrorCode = ErrorCode.NONE
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


class CreatePartitionsApi(FailsBySchema):
    """Adds partitions; any broker takes the request."""

    def __init__(self, controller: Controller, cache: MetadataCache) -> None:
        self._controller = controller
        self._cache = cache

    def answer(self, request: KafkaCreatePartitionsRequest, context: RequestContext) -> Later:
        """Ask the controller, and wait until this broker knows the new partitions."""
        return in_background(self._create(request, context))

    async def _create(
        self, request: KafkaCreatePartitionsRequest, context: RequestContext
    ) -> CreatePartitionsResponse:
        deadline = Deadline(request.timeout)
        response = await deadline.call(
            self._controller.create_partitions,
            CreatePartitionsRequest(
                topics=tuple(map(_to_add, request.topics)),
                timeout_ms=milliseconds(request.timeout),
                validate_only=request.validate_only,
                mutator=mutator(context),
            ),
        )
        if not request.validate_only:
            done = {r.name for r in response.results if r.error_code == ErrorCode.NONE}
            counts = [(topic.name, topic.count) for topic in request.topics if topic.name in done]
            await deadline.wait_for(lambda: self._are_here(counts))
        return CreatePartitionsResponse(
            results=tuple(
                CreatePartitionsTopicResult(
                    name=result.name,
                    error_code=result.error_code,
                    error_message=result.error_message or None,
                )
                for result in response.results
            ),
            throttle_time=told_to_wait(context, response.throttle_time_ms),
        )

    def _are_here(self, counts: Iterable[tuple[str, int]]) -> bool:
        by_name = self._cache.image.topics.by_name
        return all(
            name not in by_name or len(by_name[name].partitions) >= count for name, count in counts
        )


class ElectLeadersApi:
    """Has leaders elected; any broker takes the request."""

    def __init__(self, controller: Controller, cache: MetadataCache) -> None:
        self._controller = controller
        self._cache = cache

    def answer(self, request: KafkaElectLeadersRequest, context: RequestContext) -> Later:
        """Ask the controller, and wait until this broker knows the new leaders."""
        return in_background(self._elect(request))

    def failure(
        self, request: KafkaElectLeadersRequest, context: RequestContext, error: KafkaError
    ) -> ElectLeadersResponse:
        """Return the error for the whole request and for every partition named in it."""
        results = [
            ElectionResult(
                topic=topic.topic,
                partition=partition,
                error_code=error.code,
                error_message=error.message,
            )
            for topic in request.topic_partitions or ()
            for partition in topic.partitions
        ]
        return ElectLeadersResponse(
            error_code=error.code, replica_election_results=_by_topic(results)
        )

    async def _elect(self, request: KafkaElectLeadersRequest) -> ElectLeadersResponse:
        deadline = Deadline(request.timeout)
        wanted = None
        if request.topic_partitions is not None:
            wanted = tuple(
                (str(topic.topic), int(partition))
                for topic in request.topic_partitions
                for partition in topic.partitions
            )
        before = self._cache.image
        response = await deadline.call(
            self._controller.elect_leaders,
            ElectLeadersRequest(
                election_type=getattr(request, "election_type", PREFERRED),
                topic_partitions=wanted,
                timeout_ms=milliseconds(request.timeout),
            ),
        )
        elected = [r for r in response.results if r.error_code == ErrorCode.NONE]
        await deadline.wait_for(lambda: all(self._has_changed(r, before) for r in elected))
        return ElectLeadersResponse(
            error_code=response.error_code, replica_election_results=_by_topic(response.results)
        )

    def _has_changed(self, elected: ElectionResult, before: MetadataImage) -> bool:
        """Return whether the election, which raises the leader epoch, has arrived here."""
        old = before.topics.by_name.get(elected.topic)
        new = self._cache.image.topics.by_name.get(elected.topic)
        if old is None or new is None or old.topic_id != new.topic_id:
            return True
        was, now = old.partitions.get(elected.partition), new.partitions.get(elected.partition)
        return was is None or now is None or now.leader_epoch > was.leader_epoch


def _to_add(topic: CreatePartitionsTopic) -> PartitionsToAdd:
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(map(BrokerId, a.broker_ids)) for a in topic.assignments)
    return PartitionsToAdd(name=topic.name, count=topic.count, assignments=assignments)


def _by_topic(results: Iterable[ElectionResult]) -> tuple[ReplicaElectionResult, ...]:
    topics: dict[str, list[PartitionResult]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(
            PartitionResult(
                partition_id=result.partition,
                error_code=result.error_code,
                error_message=result.error_message or None,
            )
        )
    return tuple(
        ReplicaElectionResult(topic=topic, partition_result=tuple(partitions))
        for topic, partitions in topics.items()
    )
