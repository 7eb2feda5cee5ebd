"""Commits of offsets."""

from __future__ import annotations

from broker.groups.requests import CommitPartition, CommitTopic, OffsetCommit
from broker.groups.responses import OffsetResults
from jbodlab.vocabulary.error_code import ErrorCode
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
