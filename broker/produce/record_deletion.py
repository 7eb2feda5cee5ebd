"""DeleteRecords: the leader moves its log start, and answers when every replica has done so.

Followers learn of the new log start with their next fetch, and report their own log start with the
fetch after it. The smallest one is the partition's low watermark. The next retention check removes
the files.

Source: `kafka.server.ReplicaManager.deleteRecords`, `DelayedDeleteRecords`, KIP-107.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from broker.replica.leading import LeaderState
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from broker.replica.waiting import News, WaitingFetch
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

TO_HIGH_WATERMARK = -1


class RecordDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """DeleteRecords: give up what lies below an offset; -1 is the high watermark."""

    topic_partition: TopicPartition
    offset: int


class DeletedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Where the first record of any replica is; -1 on an error."""

    topic_partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    low_watermark: int = -1


class _Begun(msgspec.Struct, frozen=True):
    """A log that begins later, while the other replicas may not."""

    partition: Partition
    offset: int

    @property
    def low_watermark(self) -> int:
        """The partition's; raises KafkaError if this replica does not lead any more."""
        return low_watermark(*self.partition.leader_log())

    @property
    def is_open(self) -> bool:
        """Whether there is something to wait for."""
        try:
            return self.low_watermark < self.offset
        except KafkaError:
            return False

    def result(self) -> DeletedRecords:
        """Return what there is to say now."""
        topic_partition = self.partition.topic_partition
        try:
            reached = self.low_watermark
        except KafkaError as error:
            return DeletedRecords(topic_partition=topic_partition, error_code=error.code)
        if reached < self.offset:
            code = ErrorCode.REQUEST_TIMED_OUT
            return DeletedRecords(topic_partition=topic_partition, error_code=code)
        return DeletedRecords(topic_partition=topic_partition, low_watermark=reached)


def low_watermark(leader: LeaderState, log: PartitionLog) -> int:
    """Return the offset below which no replica that can be reached has a record."""
    followers = (
        known.start_offset
        for broker_id, known in leader.followers.items()
        if broker_id in leader.joinable
    )
    return min([log.start_offset, *followers])


async def delete_records(
    replicas: ReplicaRegistry, deletions: Sequence[RecordDeletion], timeout_ms: int
) -> list[DeletedRecords]:
    """Delete records below the offsets, and wait until they are gone from every replica."""
    begun = [await _begin(replicas, each) for each in deletions]
    waited_for = [each for each in begun if isinstance(each, _Begun)]
    if any(each.is_open for each in waited_for):
        await _settled(waited_for, timeout_ms)
    return [each.result() if isinstance(each, _Begun) else each for each in begun]


async def _begin(replicas: ReplicaRegistry, deletion: RecordDeletion) -> _Begun | DeletedRecords:
    topic_partition = deletion.topic_partition
    partition = replicas.partition(topic_partition)
    if partition is None:
        code, _ = replicas.refusal(topic_partition)
        return DeletedRecords(topic_partition=topic_partition, error_code=code)
    while partition.is_held:
        await _released(partition)
    try:
        return _Begun(partition, _advance(partition, deletion.offset))
    except KafkaError as error:
        return DeletedRecords(topic_partition=topic_partition, error_code=error.code)


def _advance(partition: Partition, wanted: int) -> int:
    """Let the leader's log begin at an offset; returns it.

    Raises:
        KafkaError: this replica does not lead, or the offset is not among those of the log.
    """
    _, log = partition.leader_log()
    if not log.config.deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    offset = partition.high_watermark if wanted == TO_HIGH_WATERMARK else wanted
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if offset > log.start_offset:
        log.advance_start_to(offset)
        partition.waiters.tell_sessions(News.URGENT)
    return offset


async def _settled(begun: Sequence[_Begun], timeout_ms: int) -> None:
    """Return when nothing is left to wait for, or the time is over."""
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[None] = loop.create_future()
    waiting = WaitingFetch(
        loop,
        timeout_ms,
        is_enough=lambda: not any(each.is_open for each in begun),
        finish=lambda: settled.set_result(None),
    )
    for each in begun:
        waiting.stand_in(each.partition.waiters.deletions)
    try:
        await settled
    finally:
        waiting.cancel()


async def _released(partition: Partition) -> None:
    released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    partition.waiters.when_ready(lambda: None if released.done() else released.set_result(None))
    await released
