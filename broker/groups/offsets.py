"""Committed offsets: commit, fetch, delete.

Source: `org.apache.kafka.coordinator.group.OffsetMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from broker.coordination.core import Answer, Ticket, Timer
from broker.groups.classic.change import SESSION_TIMER
from broker.groups.classic.group import CONSUMER, ClassicGroup, ClassicGroupState, subscribed_topics
from broker.groups.classic.groups import ClassicGroups
from broker.groups.classic.joining import check_member
from broker.groups.consumer.groups import ConsumerGroups
from broker.groups.decision import GroupDecision
from broker.groups.replay import StoredOffset
from broker.groups.requests import (
    NO_TOPIC_ID,
    CommitPartition,
    CommitTopic,
    NamedPartitions,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from broker.groups.responses import (
    CommittedTopic,
    FetchedOffset,
    OffsetFetchResponse,
    OffsetResults,
    PartitionResponse,
    TopicResponse,
)
from broker.groups.state import GroupKind, GroupState, kind_of
from broker.groups.tables import Row
from broker.groups.tombstones import offset_tombstone
from jbodlab.group_records.keys import OffsetCommitKey
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import OffsetCommitValue
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

MEMBER_EPOCHS_FROM = 9
"""Version of OffsetCommit from which clients know of groups of KIP-848."""


class StableFetch(msgspec.Struct, frozen=True, kw_only=True):
    """A fetch that wants to hear of everything that is written now."""

    request: OffsetFetch
    ticket: Ticket


class GroupOffsets:
    """Decides on requests about committed offsets; changes nothing itself."""

    def __init__(self, state: GroupState, classic: ClassicGroups, consumer: ConsumerGroups) -> None:
        self._state = state
        self._classic = classic
        self._consumer = consumer

    def commit(self, request: OffsetCommit, ticket: Ticket, now_ms: int) -> GroupDecision:
        """Decide on a commit.

        Raises:
            KafkaError: nothing of it is accepted; the error is that of every partition.
        """
        refused: Mapping[tuple[str, int], ErrorCode] = {}
        timers: tuple[Timer, ...] = ()
        match kind_of(self._state.written, request.group_id):
            case GroupKind.CONSUMER:
                refused = self._consumer.refused_partitions(request)
            case _:
                group = self._classic.find(request.group_id)
                timers = _check_commit(group, request, now_ms)
        records, response = self._committed(request, refused, now_ms)
        return GroupDecision(records=records, answers=(Answer(ticket, response),), timers=timers)

    def commit_in_transaction(
        self, request: TxnOffsetCommit, ticket: Ticket, now_ms: int
    ) -> GroupDecision:
        """Decide on a commit that belongs to a transaction; its offsets are pending until the end.

        Raises:
            KafkaError: nothing of it is accepted; the error is that of every partition.
        """
        commit = request.commit
        refused: Mapping[tuple[str, int], ErrorCode] = {}
        match kind_of(self._state.written, commit.group_id):
            case GroupKind.CONSUMER if _names_member(commit):
                refused = self._refused_in_transaction(commit)
            case GroupKind.CONSUMER:
                pass
            case _:
                _check_in_transaction(self._classic.find(commit.group_id), commit)
        records, response = self._committed(commit, refused, now_ms)
        return GroupDecision(
            records=records, producer=request.producer, answers=(Answer(ticket, response),)
        )

    def fetch(self, request: OffsetFetch, ticket: Ticket) -> GroupDecision:
        """Decide on a fetch; one that wants stable offsets waits for what is written now.

        Any fetch waits for what was loaded: what a leader has acknowledged, the next one tells.

        Raises:
            KafkaError: the client is not the member that it says.
        """
        if request.require_stable or self._state.tables.is_behind_load:
            return GroupDecision(event=StableFetch(request=request, ticket=ticket))
        return self.fetch_now(request, ticket)

    def fetch_now(self, request: OffsetFetch, ticket: Ticket) -> GroupDecision:
        """Answer a fetch from what is committed.

        Raises:
            KafkaError: the client is not the member that it says.
        """
        group_id = request.group_id
        if kind_of(self._state.committed, group_id) is GroupKind.CONSUMER:
            self._consumer.check_fetch(request)
        wanted = self._all_topics(group_id) if request.topics is None else request.topics
        topics = tuple(
            CommittedTopic(
                topic.name,
                tuple(
                    self._fetched(request, topic.name, index) for index in topic.partition_indexes
                ),
            )
            for topic in wanted
        )
        response = OffsetFetchResponse(group_id=group_id, topics=topics)
        return GroupDecision(answers=(Answer(ticket, response),), at_once=True)

    def delete(self, request: OffsetDelete, ticket: Ticket) -> GroupDecision:
        """Decide on offsets to take away.

        Raises:
            KafkaError: there is no such group, or it may have other uses for its offsets.
        """
        subscribed = self._topics_in_use(request.group_id)
        records: list[GroupRecord] = []
        topics = tuple(
            TopicResponse(
                topic.name,
                tuple(
                    PartitionResponse(index, self._delete(request, topic, index, subscribed))
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
        for topic in topics:
            records += (
                offset_tombstone(request.group_id, topic.name, partition.partition_index)
                for partition in topic.partitions
                if partition.error_code is ErrorCode.NONE
                and self._is_known(request.group_id, topic.name, partition.partition_index)
            )
        return GroupDecision(
            records=tuple(records), answers=(Answer(ticket, OffsetResults(topics=topics)),)
        )

    def _refused_in_transaction(self, commit: OffsetCommit) -> Mapping[tuple[str, int], ErrorCode]:
        """Return the partitions that a member may not commit; clients know no member epochs."""
        try:
            refused = self._consumer.refused_partitions(commit)
        except KafkaError as error:
            if error.code is ErrorCode.STALE_MEMBER_EPOCH:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from error
            raise
        return dict.fromkeys(refused, ErrorCode.ILLEGAL_GENERATION)

    def _committed(
        self, request: OffsetCommit, refused: Mapping[tuple[str, int], ErrorCode], now_ms: int
    ) -> tuple[tuple[GroupRecord, ...], OffsetResults]:
        """Return the records of a commit, and the response when they are committed."""
        records: list[GroupRecord] = []
        topics = tuple(
            self._commit_topic(request, topic, refused, now_ms, records) for topic in request.topics
        )
        return tuple(records), OffsetResults(topics=topics)

    def _commit_topic(
        self,
        request: OffsetCommit,
        topic: CommitTopic,
        refused: Mapping[tuple[str, int], ErrorCode],
        now_ms: int,
        records: list[GroupRecord],
    ) -> TopicResponse:
        results = []
        for partition in topic.partitions:
            index = partition.partition_index
            error = refused.get((topic.name, index), ErrorCode.NONE)
            metadata = partition.committed_metadata or ""
            if len(metadata) > self._state.settings.offset_metadata_max_bytes:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if error is ErrorCode.NONE:
                key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=index)
                records.append(GroupRecord(key, _value(request, topic, partition, now_ms)))
            results.append(PartitionResponse(index, error))
        return TopicResponse(topic.name, tuple(results))

    def _all_topics(self, group_id: str) -> Iterable[NamedPartitions]:
        topics: dict[str, list[int]] = {}
        for topic, partition in self._state.committed.rows(Row.OFFSET, group_id):
            if self._offset(group_id, topic, partition) is not None:
                topics.setdefault(topic, []).append(partition)
        return (NamedPartitions(name, tuple(sorted(found))) for name, found in topics.items())

    def _fetched(self, request: OffsetFetch, topic: str, partition: int) -> FetchedOffset:
        if request.require_stable and any(
            rest[:2] == (topic, partition)
            for rest in self._state.committed.rows(Row.PENDING, request.group_id)
        ):
            return FetchedOffset(partition, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        value = self._offset(request.group_id, topic, partition)
        if value is None:
            return FetchedOffset(partition)
        return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata)

    def _offset(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """Return a committed offset, unless it is of an older topic of the same name."""
        found = self._state.committed.get(Row.OFFSET, group_id, topic, partition)
        if found is None:
            return None
        value = cast("StoredOffset", found).value
        present = self._state.topics.topic_id(topic)
        is_stale = NO_TOPIC_ID != value.topic_id != present and present is not None
        return None if is_stale else value

    def _topics_in_use(self, group_id: str) -> frozenset[str]:
        if kind_of(self._state.written, group_id) is GroupKind.CONSUMER:
            return self._consumer.subscribed_topics(group_id)
        group = self._classic.find(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is ClassicGroupState.EMPTY:
            return frozenset()
        if group.protocol_type != CONSUMER:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        return subscribed_topics(group) or frozenset()

    def _delete(
        self, request: OffsetDelete, topic: NamedPartitions, index: int, subscribed: frozenset[str]
    ) -> ErrorCode:
        if not 0 <= index < self._state.topics.partition_count(topic.name):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.name in subscribed:
            return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        return ErrorCode.NONE

    def _is_known(self, group_id: str, topic: str, partition: int) -> bool:
        return self._state.written.get(Row.OFFSET, group_id, topic, partition) is not None or any(
            rest[:2] == (topic, partition)
            for rest in self._state.written.rows(Row.PENDING, group_id)
        )


def _check_commit(
    group: ClassicGroup | None, request: OffsetCommit, now_ms: int
) -> tuple[Timer, ...]:
    """Refuse the commit of who may not; return the session of the member that begins anew."""
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ()
        is_old = request.version < MEMBER_EPOCHS_FROM
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION if is_old else ErrorCode.GROUP_ID_NOT_FOUND)
    if generation < 0 and group.state is ClassicGroupState.EMPTY:
        # Administrators, and clients that assign their partitions themselves.
        return ()
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = check_member(group, request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    key = (SESSION_TIMER, group.group_id, member.member_id)
    return (Timer(key, now_ms + member.session_timeout_ms),)


def _names_member(commit: OffsetCommit) -> bool:
    """Return whether a commit of a transaction says which member it is of."""
    return (
        commit.generation_id_or_member_epoch >= 0
        or bool(commit.member_id)
        or commit.group_instance_id is not None
    )


def _check_in_transaction(group: ClassicGroup | None, commit: OffsetCommit) -> None:
    """Refuse the commit in a transaction of who may not.

    Old clients do not say which member they are. A rebalance that goes on does not matter: the
    generation is the member's still.
    """
    generation = commit.generation_id_or_member_epoch
    if group is None:
        if generation >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return
    if not _names_member(commit) or (generation < 0 and group.state is ClassicGroupState.EMPTY):
        return
    check_member(group, commit.member_id, commit.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _value(
    request: OffsetCommit, topic: CommitTopic, partition: CommitPartition, now_ms: int
) -> OffsetCommitValue:
    metadata = partition.committed_metadata or ""
    if request.retention_time_ms != -1:
        return OffsetCommitValue(
            offset=partition.committed_offset,
            metadata=metadata,
            commit_timestamp=now_ms,
            expire_timestamp=now_ms + request.retention_time_ms,
        )
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=now_ms,
        topic_id=topic.topic_id,
    )
