"""Groups: list, describe and delete them, and their committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jbodlab.kafka_admin.errors import AdminError, RequestError, UnsupportedRequestError, check
from jbodlab.kafka_admin.topics import by_topic
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient

GROUP_KEY = 0
"""Of FindCoordinator."""
_BY_NAME = 9
"""The newest version of requests about offsets in which topics have names; later ones want ids."""
_CONSUMERS = ("consumer", "")
"""Protocol types of consumers, the second one of offsets that are committed without a group."""
_UNKNOWN = "unknown"
_STATES = {
    "PreparingRebalance": "preparing rebalancing",
    "CompletingRebalance": "completing rebalancing",
}
DEAD = "dead"
"""State that brokers with an older version of the request tell of a group that does not exist."""


class GroupListing(NamedTuple):
    """A group of consumers."""

    group: str
    type: str
    state: str


class GroupMember(NamedTuple):
    """A member, with the partitions that it was given."""

    member_id: str
    instance: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class Group(NamedTuple):
    """A group in detail; `coordinator` is the id of its broker."""

    group_id: str
    type: str
    state: str
    assignor: str | None
    coordinator: int
    members: tuple[GroupMember, ...]


async def list_groups(client: AdminClient) -> tuple[list[GroupListing], list[str]]:
    """Return groups in the order of their names, and why brokers do not tell theirs."""
    found: list[GroupListing] = []
    problems = []
    for broker in await client.brokers():
        try:
            answer = await client.ask(partial(client.call, ApiKey.LIST_GROUPS, {}, broker.id))
            check(answer)
        except AdminError as error:
            problems.append(str(error))
            continue
        found += [
            GroupListing(
                one.group_id,
                getattr(one, "group_type", _UNKNOWN).lower(),
                _words(getattr(one, "group_state", _UNKNOWN)),
            )
            for one in answer.groups
            if one.protocol_type in _CONSUMERS
        ]
    return sorted(found), sorted(set(problems))


async def describe_group(client: AdminClient, name: str) -> Group | None:
    """Return a group of either protocol; None where it does not exist; raises RequestError."""
    try:
        values = {"group_ids": [name]}
        broker, found = await _at_coordinator(
            client, name, ApiKey.CONSUMER_GROUP_DESCRIBE, values, lambda answer: answer.groups[0]
        )
    except UnsupportedRequestError:
        found = None
    if found is not None and not int(found.error_code):
        members = tuple(
            GroupMember(one.member_id, one.instance_id, one.client_id, one.client_host, _given(one))
            for one in found.members
        )
        state = _words(found.group_state)
        return Group(name, "consumer", state, found.assignor_name or None, broker, members)
    return await _describe_classic(client, name)


async def _describe_classic(client: AdminClient, name: str) -> Group | None:
    broker, found = await _at_coordinator(
        client, name, ApiKey.DESCRIBE_GROUPS, {"groups": [name]}, lambda answer: answer.groups[0]
    )
    if int(found.error_code) == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(found)
    state = _words(found.group_state)
    if state == DEAD:
        return None
    members = tuple(
        GroupMember(
            one.member_id,
            getattr(one, "group_instance_id", None),
            one.client_id,
            one.client_host,
            _assigned(found.protocol_type, one.member_assignment),
        )
        for one in found.members
    )
    return Group(name, "classic", state, found.protocol_data or None, broker, members)


async def delete_group(client: AdminClient, name: str) -> None:
    """Delete a group and its offsets; raises RequestError."""
    values = {"groups_names": [name]}
    _, found = await _at_coordinator(
        client, name, ApiKey.DELETE_GROUPS, values, lambda answer: answer.results[0]
    )
    check(found)


async def committed_offsets(client: AdminClient, name: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group; raises RequestError."""
    group = {"group_id": name, "member_id": None, "member_epoch": -1, "topics": None}
    values = {"groups": [group], "require_stable": False}
    _, found = await _at_coordinator(
        client, name, ApiKey.OFFSET_FETCH, values, lambda answer: answer.groups[0], _BY_NAME
    )
    check(found)
    return {
        TopicPartition(topic.name, one.partition_index): int(one.committed_offset)
        for topic in found.topics
        for one in topic.partitions
        if not int(one.error_code) and one.committed_offset >= 0
    }


async def commit_offsets(
    client: AdminClient, name: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Set offsets of a group without members, and create it where it does not exist.

    Raises:
        AdminError: one was not set.
    """
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": one, "committed_offset": offsets[TopicPartition(topic, one)]}
                for one in indexes
            ],
        }
        for topic, indexes in by_topic(offsets).items()
    ]
    values = {"group_id": name, "member_id": "", "topics": topics}
    _, found = await _at_coordinator(
        client, name, ApiKey.OFFSET_COMMIT, values, _Committed, _BY_NAME
    )
    if not isinstance(found, _Committed):
        check(found)
    for place, one in found.partitions:
        try:
            check(one)
        except RequestError as error:
            raise AdminError(f"cannot set the offset of {place}: {error}") from error


class _Committed:
    """The answer to OffsetCommit; its error is the first one of a partition."""

    def __init__(self, answer: Any) -> None:
        self.partitions = [
            (TopicPartition(topic.name, one.partition_index), one)
            for topic in answer.topics
            for one in topic.partitions
        ]
        codes = (int(one.error_code) for _, one in self.partitions)
        self.error_code = next(filter(None, codes), 0)


async def _at_coordinator(
    client: AdminClient,
    name: str,
    api_key: ApiKey,
    values: Mapping[str, Any],
    answer_of: Any,
    newest: int | None = None,
) -> tuple[int, Any]:
    return await client.at_coordinator(
        GROUP_KEY,
        name,
        lambda broker: client.call(api_key, values, broker, newest=newest),
        answer_of,
    )


def _given(member: Any) -> tuple[TopicPartition, ...]:
    return _sorted((one.topic_name, one.partitions) for one in member.assignment.topic_partitions)


def _assigned(protocol_type: str, data: bytes) -> tuple[TopicPartition, ...]:
    from jbodlab.group_records.consumer_protocol import ConsumerProtocolAssignment, decode
    from jbodlab.vocabulary.errors import DecodeError

    if protocol_type not in _CONSUMERS or not data:
        return ()
    try:
        found, _ = decode(ConsumerProtocolAssignment, data)
    except DecodeError:
        # Assignors may write something of their own.
        return ()
    return _sorted((one.topic, one.partitions) for one in found.assigned_partitions)


def _sorted(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(name, int(one)) for name, some in topics for one in some))


def _words(state: str) -> str:
    """Return the name of a state in small letters."""
    return _STATES.get(state, state.lower())
