"""Fetch: record batches from the replicas, for consumers and for following brokers.

Followers fetch in sessions (KIP-227): see `broker.fetch.fetch_sessions`. Consumers get none:
their answers name session 0 and contain every partition that was asked for, as clients expect of a
full response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

import msgspec

from broker.api.followers import asking_replica, by_follower, named_replica
from broker.api.parts import ApiParts, serves
from broker.api.services.leader_hints import LeaderHints
from broker.bounds.limits import FETCH_BYTES_MAX, FETCHED_AT_ONCE
from broker.clients.client_behaviour import waits_after_errors
from broker.fetch.fetch_requests import (
    CONSUMER_ID,
    READ_COMMITTED,
    FetchEntry,
    FetchParams,
    FetchResult,
    SessionFetched,
    SessionRequest,
)
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.fetch_response import TOPIC_IDS_FROM, FetchedPartition, FetchedTopic
from jbodlab.kafka_wire.leader_hints import NodeEndpoint
from jbodlab.metadata.client_quota import CONSUMER_RATE
from jbodlab.security.acl import AclOperation, ResourceType
from jbodlab.server.answer import MILLISECOND, Answer, Later, RequestContext, milliseconds
from jbodlab.server.partition_errors import told
from jbodlab.server.resources import Each, Resource, all_of, name_of
from jbodlab.server.response import Response
from jbodlab.server.rights import cluster
from jbodlab.server.turns import Turns, slices
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, TopicId, TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from kio.schema.fetch.v18.request import FetchPartition, FetchRequest, FetchTopic

NO_SESSION = 0
FINAL_SESSION_EPOCH = -1
"""Closes a session and wants a full response, which every response here is."""

ANY_REPLICA_FROM = 11
"""From here on a consumer tells its rack, and may ask any replica (KIP-392)."""

UNKNOWN_REPLICA = 2**31 - 1
"""No broker's id, it is hoped; who has it is asked, and names the leader."""

T = TypeVar("T")

UNKNOWN = -1
LONG_MAX = 2**63 - 1


class FetchResponse(Response, frozen=True, kw_only=True):
    """Records read of the partitions, or the error of the whole request from version 7 on."""

    error_code: ErrorCode = ErrorCode.NONE
    session_id: int = NO_SESSION
    responses: Sequence[FetchedTopic] = ()
    node_endpoints: Collection[NodeEndpoint] = ()


def _of_consumer(request: FetchRequest, topic: FetchTopic) -> Resource:
    """Return a topic; who may follow at all may follow any."""
    if named_replica(request) >= 0:
        return cluster(AclOperation.CLUSTER_ACTION)
    return Resource(ResourceType.TOPIC, name_of(topic), AclOperation.READ)


@serves(
    ApiKey.FETCH,
    (4, 17),
    all_of(by_follower, Each(field="topics", resource=_of_consumer)),
    accepted=(4, 18),
    # It names what one broker leads; a follower's, what it has in one directory.
    max_items=20_000,
)
class FetchApi:
    """Reads, and answers when there is enough data or the wait is over."""

    def __init__(self, parts: ApiParts) -> None:
        self._fetches = parts.fetches
        self._sessions = parts.sessions
        self._cache = parts.cache
        self._broker_id = parts.broker_id
        self._traffic = parts.traffic
        self._quotas = parts.quotas
        self._turns = Turns()

    def answer(self, request: FetchRequest, context: RequestContext) -> Answer:
        """Read from every partition of the request."""
        session_id = getattr(request, "session_id", NO_SESSION)
        session_epoch = getattr(request, "session_epoch", FINAL_SESSION_EPOCH)
        params = _params(request, context, self._cache)
        in_session = (
            params.is_follower
            and session_epoch != FINAL_SESSION_EPOCH
            and context.header.api_version >= TOPIC_IDS_FROM
        )
        if session_id != NO_SESSION and session_epoch != FINAL_SESSION_EPOCH and not in_session:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        version = context.header.api_version
        names = [self._name(topic, version) for topic in request.topics]
        entries = (
            _entry(name, topic, wanted, version)
            for name, topic in zip(names, request.topics, strict=True)
            if name is not None
            for wanted in topic.partitions
        )
        if None in names:
            # A topic is unknown, and an error is answered at once.
            params = msgspec.structs.replace(params, max_wait_ms=0)
        if in_session:
            session = SessionRequest(
                session_id=session_id, epoch=session_epoch, forgotten=_forgotten(request)
            )
            return self._begun(
                partial(self._sessions.fetch, params, session),
                entries,
                partial(self._session_response, request, context, names),
                partial(self._sessions.hurry, session_id),
            )
        return self._begun(
            partial(self._fetches.fetch, params),
            entries,
            partial(self._response, request, context, names, params.is_follower),
        )

    def failure(
        self, request: FetchRequest, context: RequestContext, error: KafkaError
    ) -> FetchResponse:
        """Return the error for the whole request, or for every partition before version 7."""
        if context.version >= 7:
            return FetchResponse(error_code=told(error.code))
        return self.refused(request, context, error)

    def refused(
        self, request: FetchRequest, context: RequestContext, error: KafkaError
    ) -> FetchResponse:
        """Return the error for every partition; a client that is not a broker may not follow."""
        code = error.code
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topics = [
            FetchedTopic(
                getattr(topic, "topic", ""),
                getattr(topic, "topic_id", None),
                [_failed(wanted.partition, code) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
        return FetchResponse(responses=topics)

    def _name(self, topic: FetchTopic, version: int) -> str | None:
        if version < TOPIC_IDS_FROM:
            name: str = topic.topic  # type: ignore[attr-defined]  # versions to 12 have names
            return name
        return None if topic.topic_id is None else self._cache.topic_name(TopicId(topic.topic_id))

    def _begun(
        self,
        fetch: Callable[[list[FetchEntry]], asyncio.Future[T]],
        entries: Iterator[FetchEntry],
        respond: Callable[[T], Iterator[FetchResponse | None]],
        hurry: Callable[[], None] | None = None,
    ) -> Later:
        """Fetch and respond at once, or bit by bit where the request is large."""
        first = list(islice(entries, FETCHED_AT_ONCE))
        if len(first) < FETCHED_AT_ONCE:
            return Later(fetch(first), lambda found: _last(respond(found)), hurry)
        work = self._answer_in_parts(fetch, chain(first, entries), respond)
        task = asyncio.get_running_loop().create_task(work, name="large fetch")
        return Later(task, lambda response: response, hurry)

    async def _answer_in_parts(
        self,
        fetch: Callable[[list[FetchEntry]], asyncio.Future[T]],
        entries: Iterable[FetchEntry],
        respond: Callable[[T], Iterator[FetchResponse | None]],
    ) -> FetchResponse:
        read: list[FetchEntry] = []
        for some in slices(entries, FETCHED_AT_ONCE):
            await self._turns.next()
            read += some
        response = None
        for part in respond(await fetch(read)):
            response = part
            await self._turns.next()
        assert response is not None
        return response

    def _response(
        self,
        request: FetchRequest,
        context: RequestContext,
        names: list[str | None],
        by_follower: bool,
        results: list[FetchResult],
    ) -> Iterator[FetchResponse | None]:
        """Yield the response; a None has nothing but taken some time."""
        hints = LeaderHints(self._cache, self._broker_id, context.session.listener_name)
        redirects = context.header.api_version >= ANY_REPLICA_FROM and waits_after_errors(
            context.session.software_name
        )
        partitions = []
        for number, result in enumerate(results, 1):
            self._count(result, by_follower=by_follower)
            told = _partition(result, hints)
            partitions.append(_sent_elsewhere(told) if redirects else told)
            if number % FETCHED_AT_ONCE == 0:
                yield None
        throttle_ms = 0
        if self._cache.image.quotas and not by_follower:
            throttle_ms = self._quotas.throttle(
                CONSUMER_RATE,
                context.header.client_id,
                context.session,
                sum(result.records_size for result in results),
            )
        remaining = iter(partitions)
        topics = [
            FetchedTopic(
                name or "",
                getattr(topic, "topic_id", None),
                _unknown(topic) if name is None else list(islice(remaining, len(topic.partitions))),
            )
            for name, topic in zip(names, request.topics, strict=True)
        ]
        assert next(remaining, None) is None
        yield FetchResponse(
            responses=topics,
            node_endpoints=hints.endpoints,
            throttle_time=throttle_ms * MILLISECOND,
        )

    def _session_response(
        self,
        request: FetchRequest,
        context: RequestContext,
        names: list[str | None],
        fetched: SessionFetched,
    ) -> Iterator[FetchResponse | None]:
        hints = LeaderHints(self._cache, self._broker_id, context.session.listener_name)
        topics = [
            FetchedTopic("", topic.topic_id, _unknown(topic))
            for name, topic in zip(names, request.topics, strict=True)
            if name is None
        ]
        by_topic: dict[TopicId | None, list[FetchedPartition]] = {}
        for result in fetched.results:
            self._count(result, by_follower=True)
            by_topic.setdefault(result.topic_id, []).append(_partition(result, hints))
        topics += [FetchedTopic("", topic_id, found) for topic_id, found in by_topic.items()]
        yield FetchResponse(
            session_id=fetched.session_id, responses=topics, node_endpoints=hints.endpoints
        )

    def _count(self, result: FetchResult, *, by_follower: bool) -> None:
        topic = result.topic_partition.topic
        if result.error_code == ErrorCode.NONE:
            self._traffic.fetched(topic, result.records_size, by_follower=by_follower)
        else:
            self._traffic.fetch_failed(topic, result.error_code)


def _last(parts: Iterable[FetchResponse | None]) -> FetchResponse:
    *_, response = parts
    assert response is not None
    return response


def _forgotten(request: FetchRequest) -> list[TopicIdPartition]:
    return [
        TopicIdPartition(TopicId(topic.topic_id), index)
        for topic in request.forgotten_topics_data
        if topic.topic_id is not None
        for index in topic.partitions
    ]


def _params(request: FetchRequest, context: RequestContext, cache: MetadataCache) -> FetchParams:
    version = context.header.api_version
    state = getattr(request, "replica_state", None)
    replica_id = asking_replica(request, context, cache)
    max_bytes = int(request.max_bytes)
    is_consumer = replica_id == CONSUMER_ID
    if replica_id < 0:
        max_bytes = min(max_bytes, FETCH_BYTES_MAX)
    return FetchParams(
        replica_id=BrokerId(replica_id),
        replica_epoch=UNKNOWN if state is None else state.replica_epoch,
        max_wait_ms=milliseconds(request.max_wait),
        # More than an answer holds cannot be waited for.
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        read_committed=is_consumer and request.isolation_level == READ_COMMITTED,
        any_replica=replica_id < CONSUMER_ID or (is_consumer and version >= ANY_REPLICA_FROM),
        rack=(getattr(request, "rack_id", None) or None) if is_consumer else None,
    )


def _entry(name: str, topic: FetchTopic, wanted: FetchPartition, version: int) -> FetchEntry:
    topic_id = topic.topic_id if version >= TOPIC_IDS_FROM else None
    return FetchEntry(
        topic_partition=TopicPartition(name, wanted.partition),
        topic_id=None if topic_id is None else TopicId(topic_id),
        fetch_offset=wanted.fetch_offset,
        partition_max_bytes=wanted.partition_max_bytes,
        current_leader_epoch=getattr(wanted, "current_leader_epoch", UNKNOWN),
        last_fetched_epoch=getattr(wanted, "last_fetched_epoch", UNKNOWN),
        log_start_offset=getattr(wanted, "log_start_offset", UNKNOWN),
        high_watermark=_known_high_watermark(wanted),
    )


def _known_high_watermark(wanted: FetchPartition) -> int:
    """Return what a follower knows; the default of the field says that it does not know of it."""
    known: int = getattr(wanted, "high_watermark", LONG_MAX)
    return UNKNOWN if known == LONG_MAX else known


def _sent_elsewhere(told: FetchedPartition) -> FetchedPartition:
    """Name another replica, not an error, where the metadata name another leader."""
    if told.current_leader is None:
        return told
    return told._replace(
        error_code=ErrorCode.NONE, current_leader=None, preferred_read_replica=UNKNOWN_REPLICA
    )


def _partition(result: FetchResult, hints: LeaderHints) -> FetchedPartition:
    diverging = result.diverging_epoch
    return FetchedPartition(
        result.topic_partition.partition,
        told(result.error_code),
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        result.records,
        result.records_size,
        None if diverging is None else (diverging.epoch, diverging.end_offset),
        hints.hint(result.topic_partition, result.error_code, result.leader_hint),
        result.aborted_transactions,
        result.preferred_read_replica,
    )


def _unknown(topic: FetchTopic) -> list[FetchedPartition]:
    return [_failed(wanted.partition, ErrorCode.UNKNOWN_TOPIC_ID) for wanted in topic.partitions]


def _failed(partition_index: int, error_code: ErrorCode) -> FetchedPartition:
    return FetchedPartition(partition_index, told(error_code), UNKNOWN, UNKNOWN, UNKNOWN)
