"""Commits of offsets, and fetches of them, with the epoch of a member."""

from __future__ import annotations

from broker.coordination.core import Ticket
from broker.groups.requests import (
    CommitPartition,
    CommitTopic,
    NamedPartitions,
    OffsetCommit,
    OffsetFetch,
    TxnOffsetCommit,
)
from broker.groups.responses import OffsetResults
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.producer import Producer
from tests.broker.groups.consumer.rig import GROUP, Rig


def commit(
    rig: Rig, member_id: str, epoch: int, *partitions: int, version: int = 9
) -> ErrorCode | dict[int, ErrorCode]:
    """Return one error for all, or those of the partitions."""
    response = rig.answer(
        OffsetCommit(
            group_id=GROUP,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            version=version,
            topics=(
                CommitTopic("t", tuple(CommitPartition(each, 5) for each in partitions or (0,))),
            ),
        )
    )
    if not isinstance(response, OffsetResults):
        return response
    errors = {each.partition_index: each.error_code for each in response.topics[0].partitions}
    return next(iter(errors.values())) if len(set(errors.values())) == 1 else errors


def in_transaction(
    rig: Rig, member_id: str, epoch: int, *partitions: int
) -> ErrorCode | dict[int, ErrorCode]:
    """Return one error for all, or those of the partitions."""
    topic = CommitTopic("t", tuple(CommitPartition(each, 5) for each in partitions))
    asked = OffsetCommit(
        group_id=GROUP, member_id=member_id, generation_id_or_member_epoch=epoch, topics=(topic,)
    )
    request = TxnOffsetCommit(producer=Producer(7, 0), commit=asked)
    response = rig.shard.decide(request, Ticket(1000), 0).answers[0].response
    if not isinstance(response, OffsetResults):
        return ErrorCode(response.code)
    errors = {each.partition_index: each.error_code for each in response.topics[0].partitions}
    return next(iter(errors.values())) if len(set(errors.values())) == 1 else errors


def fetch(rig: Rig, member_id: str | None, epoch: int) -> ErrorCode:
    """Return the error of a fetch of the offset of partition 0."""
    topics = (NamedPartitions("t", (0,)),)
    asked = OffsetFetch(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=topics)
    response = rig.answer(asked)
    return getattr(response, "error_code", response)
