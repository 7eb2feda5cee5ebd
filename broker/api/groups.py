"""Consumer groups, as far as a consumer with an assignment of its own needs them.

Such a consumer with a group id asks for its coordinator and for committed offsets. Every broker
names itself as coordinator and answers that no offset was committed, so that the client follows
its `auto.offset.reset`. Group membership and committed offsets are not kept; joining and
committing get an error rather than be lost silently.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.api.answer import RequestContext, Response
from broker.metadata_cache import MetadataCache
from broker.replica.client_requests import NO_TRANSACTIONS
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError
from jbodlab.ids import BrokerId
from jbodlab.protocol.api_table import ApiKey

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
    from kio.schema.offset_commit.v9.request import OffsetCommitRequest

GROUP = 0
TRANSACTION = 1
"""Key types of FindCoordinator; the type exists from version 1."""

BATCHED_COORDINATORS_FROM = 4
BATCHED_GROUPS_FROM = 8

LIBRDKAFKA_VERSION = 2
"""With which librdkafka asks for coordinators."""

NOT_SERVED = ErrorCode.UNSUPPORTED_VERSION
"""Answer to JoinGroup and to commits: clients raise it as it is, and do not try again."""

NOT_A_MEMBER = ErrorCode.UNKNOWN_MEMBER_ID
"""Answer to everything that a member may ask; nobody is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """Where one key is coordinated; -1 and empty on an error."""

    key: str = ""
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse(Response):
    """One entry for each key; versions before 4 have one key and these fields themselves."""

    error_code: ErrorCode
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: tuple[Coordinator, ...]


class FindCoordinatorApi:
    """Names this broker, or another live one while it is not live itself."""

    def __init__(self, cache: MetadataCache, broker_id: BrokerId) -> None:
        self._cache = cache
        self._broker_id = broker_id

    def answer(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse:
        """Find the coordinator of every key."""
        key_type = getattr(request, "key_type", GROUP)
        if key_type == TRANSACTION:
            raise KafkaError(_transactions_refusal(context.version), NO_TRANSACTIONS)
        if key_type != GROUP:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown key type {key_type}")
        brokers = self._cache.live_brokers(context.listener_name)
        if not brokers:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        broker = next((b for b in brokers if b.id == self._broker_id), brokers[0])
        return _coordinators(
            Coordinator(key=key, node_id=broker.id, host=broker.host, port=broker.port)
            for key in _keys(request, context.version)
        )

    def failure(
        self, request: FindCoordinatorRequest, context: RequestContext, error: KafkaError
    ) -> FindCoordinatorResponse:
        """Return the error for every key."""
        return _coordinators(
            Coordinator(key=key, error_code=error.code, error_message=error.message or None)
            for key in _keys(request, context.version)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The offset committed for one partition: none."""

    partition_index: int
    committed_offset: int = -1
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopic:
    """The partitions of one topic."""

    name: str
    partitions: tuple[CommittedOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroup:
    """The topics of one group."""

    group_id: str
    topics: tuple[OffsetFetchTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse(Response):
    """One entry for each group; versions before 8 have one group and its topics here."""

    topics: tuple[OffsetFetchTopic, ...]
    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[OffsetFetchGroup, ...]


class OffsetFetchApi:
    """Knows of no committed offset."""

    def answer(self, request: Any, context: RequestContext) -> OffsetFetchResponse:
        """Answer for every partition that none was committed."""
        return self._response(request, context, ErrorCode.NONE)

    def failure(
        self, request: Any, context: RequestContext, error: KafkaError
    ) -> OffsetFetchResponse:
        """Return the error for every group."""
        return self._response(request, context, error.code)

    def _response(
        self, request: Any, context: RequestContext, error_code: ErrorCode
    ) -> OffsetFetchResponse:
        wanted = request.groups if context.version >= BATCHED_GROUPS_FROM else (request,)
        groups = tuple(
            OffsetFetchGroup(
                group_id=group.group_id,
                topics=_no_offsets(group.topics or (), error_code),
                error_code=error_code,
            )
            for group in wanted
        )
        topics = groups[0].topics if context.version < BATCHED_GROUPS_FROM else ()
        return OffsetFetchResponse(topics=topics, error_code=error_code, groups=groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitPartition:
    """What became of one offset."""

    partition_index: int
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTopic:
    """The partitions of one topic."""

    name: str
    partitions: tuple[OffsetCommitPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse(Response):
    """One entry for each partition of the request."""

    topics: tuple[OffsetCommitTopic, ...]


class OffsetCommitApi:
    """Keeps no offsets."""

    def answer(self, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
        """Refuse every offset."""
        raise KafkaError(NOT_SERVED)

    def failure(
        self, request: OffsetCommitRequest, context: RequestContext, error: KafkaError
    ) -> OffsetCommitResponse:
        """Return the error for every partition."""
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetCommitPartition(
                            partition_index=partition.partition_index, error_code=error.code
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipResponse(Response):
    """Refusal of JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the fields of all four."""

    error_code: ErrorCode
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[()] = ()
    assignment: bytes = b""


class MembershipApi:
    """Lets nobody join a group."""

    def answer(self, request: Any, context: RequestContext) -> MembershipResponse:
        """Refuse."""
        joins = context.header.api_key == ApiKey.JOIN_GROUP
        raise KafkaError(NOT_SERVED if joins else NOT_A_MEMBER)

    def failure(
        self, request: Any, context: RequestContext, error: KafkaError
    ) -> MembershipResponse:
        """Return the error."""
        return MembershipResponse(
            error_code=error.code, member_id=getattr(request, "member_id", "")
        )


def _transactions_refusal(version: int) -> ErrorCode:
    """Return the code with which a client shows the words that come with it, at once.

    librdkafka asks again without an end, and in silence, unless this is about rights; then it
    shows code and words. The others show the words, or at least the code, of any other error.
    """
    if version == LIBRDKAFKA_VERSION:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.UNSUPPORTED_VERSION


def _keys(request: Any, version: int) -> tuple[str, ...]:
    if version >= BATCHED_COORDINATORS_FROM:
        keys: tuple[str, ...] = request.coordinator_keys
        return keys
    return (request.key,)


def _coordinators(found: Iterable[Coordinator]) -> FindCoordinatorResponse:
    coordinators = tuple(found)
    first = coordinators[0] if coordinators else Coordinator()
    return FindCoordinatorResponse(
        error_code=first.error_code,
        error_message=first.error_message,
        node_id=first.node_id,
        host=first.host,
        port=first.port,
        coordinators=coordinators,
    )


def _no_offsets(topics: Iterable[Any], error_code: ErrorCode) -> tuple[OffsetFetchTopic, ...]:
    return tuple(
        OffsetFetchTopic(
            name=topic.name,
            partitions=tuple(
                CommittedOffset(partition_index=index, error_code=error_code)
                for index in topic.partition_indexes
            ),
        )
        for topic in topics
    )
