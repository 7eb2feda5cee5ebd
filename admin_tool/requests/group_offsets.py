"""Committed offsets of groups: reading, writing, deleting them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from admin_tool.errors import RequestError, UnsupportedRequestError
from admin_tool.requests.connection import Connection
from admin_tool.requests.coordinators import Answers, each_group, one_group
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition

NAMES_MAX_VERSION = 9
"""Of OffsetCommit and OffsetFetch: later versions know topics by id alone."""
FIRST_VERSION_OF_MANY = 8
"""Of OffsetFetch: it asks for many groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """Where a group stands in a partition; `leader_epoch` is None where the client said none."""

    offset: int
    leader_epoch: int | None = None


Committed = Mapping[TopicPartition, CommittedOffset]


def fetch_offsets(
    connection: Connection, groups: Iterable[str], timeout_ms: int
) -> dict[str, Committed | RequestError]:
    """Return all committed offsets of groups; a group that does not exist has none."""
    from kafka.protocol.consumer import OffsetFetchRequest  # type: ignore[import-untyped]

    def ask(coordinator: int, names: list[str]) -> Answers[Committed]:
        wanted = [
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names
        ]
        request = OffsetFetchRequest(
            groups=wanted, min_version=FIRST_VERSION_OF_MANY, max_version=NAMES_MAX_VERSION
        )
        try:
            response = connection.call(request, coordinator)
        except UnsupportedRequestError:
            return {name: ask_one(coordinator, name) for name in names}
        return {one.group_id: _committed(one) for one in response.groups}

    def ask_one(coordinator: int, name: str) -> Committed | RequestError:
        request = OffsetFetchRequest(
            group_id=name, topics=None, min_version=2, max_version=FIRST_VERSION_OF_MANY - 1
        )
        return _committed(connection.call(request, coordinator))

    return each_group(connection, groups, timeout_ms, ask)


def commit_offsets(
    connection: Connection, group: str, offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> None:
    """Commit offsets for a group without members.

    Raises:
        RequestError: the coordinator refuses one; the others may be committed.
    """
    from kafka.protocol.consumer import OffsetCommitRequest as Request

    topic_type = Request.OffsetCommitRequestTopic
    topics = [
        topic_type(
            name=topic,
            partitions=[
                topic_type.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offsets[TopicPartition(topic, index)],
                    committed_leader_epoch=-1,
                    committed_metadata="",
                )
                for index in indexes
            ],
        )
        for topic, indexes in _by_topic(offsets).items()
    ]

    def ask(coordinator: int, names: list[str]) -> Answers[None]:
        request = Request(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=topics,
            max_version=NAMES_MAX_VERSION,
        )
        response = connection.call(request, coordinator)
        failed = [
            (TopicPartition(topic.name, one.partition_index), one.error_code)
            for topic in response.topics
            for one in topic.partitions
            if one.error_code
        ]
        if not failed:
            return {group: None}
        where, code = failed[0]
        error = RequestError(code)
        return {group: RequestError(code, f"cannot commit the offset of {where}: {error}")}

    if offsets:
        one_group(connection, group, timeout_ms, ask)


def delete_offsets(
    connection: Connection, group: str, partitions: Iterable[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, RequestError | None]:
    """Delete committed offsets; returns why those are still there that are.

    Raises:
        RequestError: the coordinator refuses all.
    """
    from kafka.protocol.consumer import OffsetDeleteRequest as Request

    topic_type = Request.OffsetDeleteRequestTopic
    topics = [
        topic_type(
            name=topic,
            partitions=[
                topic_type.OffsetDeleteRequestPartition(partition_index=index) for index in indexes
            ],
        )
        for topic, indexes in _by_topic(partitions).items()
    ]

    def ask(coordinator: int, names: list[str]) -> Answers[Any]:
        response = connection.call(Request(group_id=group, topics=topics), coordinator)
        return {group: RequestError(response.error_code) if response.error_code else response}

    response = one_group(connection, group, timeout_ms, ask)
    return {
        TopicPartition(topic.name, one.partition_index): (
            RequestError(one.error_code) if one.error_code else None
        )
        for topic in response.topics
        for one in topic.partitions
    }


def _committed(answer: Any) -> Committed | RequestError:
    if answer.error_code:
        # Brokers say so of a group only that is not there.
        if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        return RequestError(answer.error_code)
    found: dict[TopicPartition, CommittedOffset] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code:
                return RequestError(one.error_code)
            if one.committed_offset >= 0:
                epoch = getattr(one, "committed_leader_epoch", -1)
                found[TopicPartition(topic.name, one.partition_index)] = CommittedOffset(
                    offset=one.committed_offset, leader_epoch=None if epoch < 0 else epoch
                )
    return found


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for one in sorted(partitions):
        found[one.topic].append(one.partition)
    return found
