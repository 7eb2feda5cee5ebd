"""DeleteRecords: logs begin later, and the answer waits for every replica that can be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.produce.record_deletion import DeletedRecords, RecordDeletion
from broker.replica.partition.partition import Partition
from jbodlab.storage.log.producer_state import ProducerEntry
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.replicas import (
    DEADLINE_S,
    TOPIC,
    TP,
    batch,
    change,
    config,
    directories_left,
    directory_id,
)
from tests.broker.stage import TWO, Stage
from tests.waiting import turns


class Leader(Stage):
    """Broker 1 leads ten records, all committed; broker 2 follows by the test's word."""

    async def begin(self, *_: int, **__: object) -> Partition:
        partition = await super().begin(1, 2)
        await self.host.produced(batch(10), acks=1)
        self.reached(0)
        return partition

    @property
    def log_start(self) -> int:
        return self.log.start_offset

    def reached(self, log_start: int) -> None:
        """The follower has all records from an offset on."""
        self.partition.in_sync.follower_fetched(TWO, 10, 7, log_start)

    def delete(
        self, offset: int, *, timeout_ms: int = 60_000, topic_partition: TopicPartition = TP
    ) -> asyncio.Future[list[DeletedRecords]]:
        deletion = RecordDeletion(topic_partition=topic_partition, offset=offset)
        return asyncio.ensure_future(self.host.manager.delete_records([deletion], timeout_ms))

    async def deleted(self, offset: int, **how: object) -> tuple[ErrorCode, int]:
        (result,) = await asyncio.wait_for(self.delete(offset, **how), DEADLINE_S)  # type: ignore[arg-type]
        return result.error_code, result.low_watermark


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    async with Leader(tmp_path) as leader:
        await leader.begin()
        yield leader


async def test_answer_waits_until_the_follower_begins_behind_what_was_deleted(
    leader: Leader,
) -> None:
    answer = leader.delete(7)
    await turns()
    assert leader.log_start == 7
    leader.reached(6)
    await turns()
    assert not answer.done()

    leader.reached(7)

    (result,) = await asyncio.wait_for(answer, DEADLINE_S)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 7)


async def test_minus_one_deletes_up_to_the_high_watermark(leader: Leader) -> None:
    leader.reached(10)
    assert await leader.deleted(-1) == (ErrorCode.NONE, 10)
    assert leader.log_start == 10


async def test_what_is_gone_already_is_answered_at_once(leader: Leader) -> None:
    leader.reached(7)
    assert await leader.deleted(7) == (ErrorCode.NONE, 7)
    assert await leader.deleted(3) == (ErrorCode.NONE, 7)
    assert leader.log_start == 7


async def test_only_committed_records_can_be_deleted(leader: Leader) -> None:
    await leader.host.produced(batch(5), acks=1)
    for offset in (11, 15, 100, -2):
        assert await leader.deleted(offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert leader.log_start == 0


async def test_a_follower_that_cannot_be_reached_is_not_waited_for(leader: Leader) -> None:
    answer = leader.delete(7)
    await turns()
    leader.apply(directories_left(2, directory_id(21)), change(isr=(1,)))
    (result,) = await asyncio.wait_for(answer, DEADLINE_S)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 7)


async def test_a_follower_that_says_nothing_runs_the_time_out(leader: Leader) -> None:
    assert await leader.deleted(7, timeout_ms=1) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert leader.log_start == 7


async def test_a_leader_that_leads_no_more_says_so_at_once(leader: Leader) -> None:
    answer = leader.delete(7)
    await turns()
    leader.apply(change(leader=2))
    (result,) = await asyncio.wait_for(answer, DEADLINE_S)
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await leader.deleted(8) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    other = TopicPartition(TOPIC, 9)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await leader.deleted(8, topic_partition=other) == unknown


async def test_compacted_topics_lose_no_records(leader: Leader) -> None:
    leader.apply(config("cleanup.policy", "compact"))
    assert await leader.deleted(7) == (ErrorCode.POLICY_VIOLATION, -1)


async def test_a_deletion_waits_for_a_replica_that_changes_its_directory(leader: Leader) -> None:
    leader.reached(7)
    leader.partition.hold()
    answer = leader.delete(7)
    await turns()
    assert leader.log_start == 0
    leader.partition.release()
    (result,) = await asyncio.wait_for(answer, DEADLINE_S)
    assert result.low_watermark == 7


async def test_producers_are_described_by_any_replica(leader: Leader) -> None:
    await leader.host.produced(batch(3, producer_id=44, epoch=2, sequence=0), acks=1)
    for _ in range(2):
        ((producer_id, entry),) = leader.host.registry.usable_log(TP).producers.entries
        assert (producer_id, entry.epoch, entry.last_sequence) == (44, 2, 2)
        assert isinstance(entry, ProducerEntry)
        leader.apply(change(leader=2))
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
        leader.host.registry.usable_log(TopicPartition(TOPIC, 9))
