"""Whether a member of a consumer group may commit or read offsets in the epoch that it names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker.groups.consumer.group import ConsumerGroup, is_classic
from broker.groups.requests import NO_TOPIC_ID, OffsetCommit, OffsetFetch
from broker.groups.topics import Topics
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicIdPartition

FIRST_VERSION_WITH_EPOCHS = 9
"""Of OffsetCommit: before, the field holds the generation of a classic member."""

_NONE: Mapping[tuple[str, int], ErrorCode] = MappingProxyType({})


def refused_partitions(
    group: ConsumerGroup, request: OffsetCommit, topics: Topics
) -> Mapping[tuple[str, int], ErrorCode]:
    """Return those partitions of a commit that its member may not commit now.

    A commit may come with an epoch that was the member's: it counts for the partitions that were
    assigned by then and are the member's still (KIP-1251). Apache Kafka refuses the whole commit
    for one partition that is not; here the others keep their progress.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, or the whole commit is of an epoch to
            come: STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for a classic member.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return _NONE
    member = group.members.get(request.member_id)
    if member is None:
        raise _unknown(group, request.member_id)
    if not is_classic(member) and request.version < FIRST_VERSION_WITH_EPOCHS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"OffsetCommit version {request.version} cannot be used by member {request.member_id}, "
            f"expected at least {FIRST_VERSION_WITH_EPOCHS}",
        )
    stale = ErrorCode.ILLEGAL_GENERATION if is_classic(member) else ErrorCode.STALE_MEMBER_EPOCH
    current = group.current_of(request.member_id)
    if epoch == current.epoch:
        return _NONE
    if epoch > current.epoch:
        raise KafkaError(
            stale, f"expected epoch {current.epoch} of member {request.member_id}, got {epoch}"
        )
    held = {**current.assigned, **current.pending_revocation}
    refused = {}
    for topic in request.topics:
        known = topic.topic_id != NO_TOPIC_ID
        topic_id = topic.topic_id if known else topics.topic_id(topic.name)
        for partition in topic.partitions:
            number = partition.partition_index
            since = None if topic_id is None else held.get(TopicIdPartition(topic_id, number))
            if since is None or epoch < since:
                refused[topic.name, number] = stale
    return refused


def check_fetch(group: ConsumerGroup, request: OffsetFetch) -> None:
    """Refuse a fetch of somebody who is not the member that it says; without an id all may read.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH.
    """
    if request.member_id is None:
        return
    if request.member_id not in group.members:
        raise _unknown(group, request.member_id)
    epoch = group.current_of(request.member_id).epoch
    if request.member_epoch != epoch:
        raise KafkaError(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"expected epoch {epoch} of member {request.member_id}, got {request.member_epoch}",
        )


def _unknown(group: ConsumerGroup, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in group {group.group_id}"
    )
