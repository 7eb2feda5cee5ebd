"""Wrong input to ConsumerGroupHeartbeat, looked for in the order in which Apache Kafka does.

Faults of the request alone come first, then those that do not fit the group.
"""

from __future__ import annotations

from collections.abc import Set

from broker.groups.consumer.group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    is_classic,
)
from broker.groups.requests import ConsumerGroupHeartbeat
from broker.groups.settings import GroupSettings
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicIdPartition

FIRST_VERSION_WITH_CLIENT_IDS = 1
"""From here on the client makes its member id."""

UNCHANGED_MS = -1


def check_request(request: ConsumerGroupHeartbeat, settings: GroupSettings) -> None:
    """Check what can be said without the group.

    Raises:
        KafkaError: UNSUPPORTED_VERSION, INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    if "consumer" not in settings.rebalance_protocols:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "the consumer group protocol is disabled on this broker"
        )
    _check_texts(request)
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        _check_join(request)
    if epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid(f"member epoch {epoch} requires an instance id")
    if epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"expected a member epoch of at least {STATIC_LEAVE_EPOCH}, got {epoch}")
    assignor = request.server_assignor
    if assignor is not None and assignor not in settings.consumer_assignors:
        known = ", ".join(settings.consumer_assignors)
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"unsupported assignor {assignor}, expected one of {known}",
        )


def _check_texts(request: ConsumerGroupHeartbeat) -> None:
    if not request.group_id.strip():
        raise _invalid("group id is empty")
    for what, text in (("instance id", request.instance_id), ("rack", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{what} is empty")
    id_from_client = request.version >= FIRST_VERSION_WITH_CLIENT_IDS
    must_be_known = request.member_epoch > JOIN_EPOCH or request.member_epoch == LEAVE_EPOCH
    if (id_from_client or must_be_known) and not request.member_id.strip():
        raise _invalid("member id is empty")


def _check_join(request: ConsumerGroupHeartbeat) -> None:
    if request.rebalance_timeout_ms == UNCHANGED_MS:
        raise _invalid("a member that joins must send a rebalance timeout")
    if request.topic_partitions is None or any(
        topic.partitions for topic in request.topic_partitions
    ):
        raise _invalid("a member that joins must send an empty list of owned partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("a member that joins must send topic names or a regular expression")


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


def check_place(
    group: ConsumerGroup, request: ConsumerGroupHeartbeat, settings: GroupSettings
) -> None:
    """Check that the member is one, or may become one.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
            UNRELEASED_INSTANCE_ID.
    """
    member_id, instance_id = request.member_id, request.instance_id
    holder = None if instance_id is None else group.static_members.get(instance_id)
    is_join = request.member_epoch == JOIN_EPOCH
    # A member that takes the place of a static one makes the group no larger.
    is_new = member_id not in group.members and holder is None
    if is_new and len(group.members) >= settings.consumer_max_size:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {group.group_id} is full: it has {len(group.members)} members",
        )
    if not is_join:
        check_known(group, member_id, instance_id)
    elif holder is not None and holder != member_id:
        is_away = group.current_of(holder).epoch == STATIC_LEAVE_EPOCH
        # A member of the classic protocol cannot say that it leaves for a while.
        if not is_away and not is_classic(group.members[holder]):
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"member {holder} still uses instance id {instance_id}",
            )


def check_known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """Check that a member is in the group, under its instance id if it has one.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"instance id {instance_id} is not in group {group.group_id}",
            )
        if holder != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"instance id {instance_id} belongs to member {holder}, not to {member_id}",
            )
    if member_id not in group.members:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in group {group.group_id}"
        )


def check_epoch(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeat,
    owned: Set[TopicIdPartition] | None,
) -> None:
    """Check the epoch that a member of the group names.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH.
    """
    current = group.current_of(request.member_id)
    received = request.member_epoch
    if received in (JOIN_EPOCH, current.epoch):
        return
    # The answer that brought its new epoch may be lost; nothing of it was used then.
    if (
        received == current.previous_epoch < current.epoch
        and owned is not None
        and owned <= current.assigned.keys()
    ):
        return

    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"expected epoch {current.epoch} of member {request.member_id}, got {received}; the member "
        "must release its partitions and join again",
    )
