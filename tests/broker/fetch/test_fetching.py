from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.bounds.limits import PART_ENTRIES
from broker.fetch.fetch_requests import FetchEntry, FetchResult, OffsetQuery
from broker.replica.log.partition_log import PartitionLog
from broker.replica.waiting.append_entries import LeaderHint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from tests.broker.fetch.requests import fetch_entry, fetch_params
from tests.broker.replicas import DEADLINE_S, TP, batch, broker, change, directory_id
from tests.broker.stage import D2, TWO, Stage, tp
from tests.waiting import turns

OTHER = tp(1)


class Leader(Stage):
    """Broker 1 leads two partitions in two directories; broker 2 follows."""

    async def append(self, count: int = 1, topic_partition: TopicPartition = TP) -> None:
        await self.host.produced(batch(count), acks=1, topic_partition=topic_partition)

    def fetch(
        self, offset: int = 0, *entries: FetchEntry, follower: bool = False, **how: Any
    ) -> asyncio.Future[list[FetchResult]]:
        who = {"replica_id": TWO, "replica_epoch": 7} if follower else {}
        params = fetch_params(**{"max_wait_ms": 60_000} | who | how)
        return self.host.manager.fetches.fetch(params, entries or [fetch_entry(offset)])


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    async with Leader(tmp_path) as leader:
        await leader.begin(1, 2, partitions=2)
        yield leader


async def got(future: asyncio.Future[list[FetchResult]]) -> FetchResult:
    (result,) = await asyncio.wait_for(future, DEADLINE_S)
    return result


def now(future: asyncio.Future[list[FetchResult]]) -> FetchResult:
    """Return what a fetch was answered; it must have been by now."""
    assert future.done()
    return future.result()[0]


async def test_consumer_waits_for_the_high_watermark_and_a_follower_does_not(
    leader: Leader,
) -> None:
    consumer = leader.fetch(0)
    follower = leader.fetch(0, follower=True)

    await leader.append()

    assert (await got(follower)).records_size > 0
    assert not consumer.done()
    leader.fetch(1, follower=True)
    answer = now(consumer)
    assert (answer.high_watermark, answer.last_stable_offset) == (1, 1)
    assert answer.records_size == len(batch())


async def test_fetched_batches_carry_their_offset_and_leader_epoch(leader: Leader) -> None:
    from jbodlab.record_batch.record_batch import crc_is_valid, iterate_headers

    await leader.append(2)
    await leader.append(1)

    answer = await got(leader.fetch(0, follower=True))

    data = b"".join(bytes(piece) for piece in answer.records)
    headers = [header for _, header in iterate_headers(data)]
    assert [(h.base_offset, h.partition_leader_epoch) for h in headers] == [(0, 0), (2, 0)]
    assert all(crc_is_valid(data, at, header) for at, header in iterate_headers(data))


async def test_what_memory_no_longer_has_is_read_from_the_file(leader: Leader) -> None:
    await leader.append(2)
    await leader.append(1)
    in_memory = await got(leader.fetch(0, follower=True))
    leader.log.tail.clear()
    from_file = await got(leader.fetch(0, follower=True))

    assert b"".join(from_file.records) == b"".join(in_memory.records)


async def test_waiting_fetch_is_answered_the_moment_its_directory_fails(leader: Leader) -> None:
    leader.apply(change(leader=1, isr=(1,)))
    waiting = [leader.fetch(0), leader.fetch(0, follower=True)]

    leader.fail()

    assert [now(each).error_code for each in waiting] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


async def test_consumers_wait_for_the_next_leader_and_followers_do_not(leader: Leader) -> None:
    consumers = [leader.fetch(0)]
    follower = leader.fetch(0, follower=True)

    leader.fail()
    consumers.append(leader.fetch(0, fetch_entry(0, current_leader_epoch=0)))

    assert now(follower).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    later = leader.fetch(0, follower=True)
    assert now(later).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    await turns()
    assert not any(each.done() for each in consumers)

    leader.apply(change(leader=2, isr=(2,)))

    first, second = [await got(each) for each in consumers]
    assert first.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert first.leader_hint == LeaderHint(leader=TWO, leader_epoch=LeaderEpoch(1))
    assert second.error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert second.leader_hint == first.leader_hint


async def test_fetch_beside_a_failed_leader_is_answered_with_what_others_have(
    leader: Leader,
) -> None:
    leader.fail()
    await leader.append(1, OTHER)

    failed, other = await asyncio.wait_for(
        leader.fetch(0, fetch_entry(0), fetch_entry(0, OTHER), min_bytes=0), DEADLINE_S
    )

    assert (failed.error_code, failed.records_size) == (ErrorCode.NONE, 0)
    assert other.error_code is ErrorCode.NONE


async def test_offsets_are_looked_up_when_the_next_leader_is_known(leader: Leader) -> None:
    leader.fail()
    query = OffsetQuery(topic_partition=TP, timestamp=-1)
    asked = asyncio.ensure_future(
        leader.host.manager.offsets.list_offsets([query], BrokerId(-1), 0)
    )
    await turns()
    assert not asked.done()

    leader.apply(change(leader=2, isr=(2,)))

    (answer,) = await asyncio.wait_for(asked, DEADLINE_S)
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_fetch_that_cannot_be_answered_keeps_nobody_else_waiting(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its client, nor the other fetches, nor the produce request that wakes it."""
    read = PartitionLog.read
    faults = [RuntimeError("fault of this program")]

    def read_later(log: PartitionLog, *arguments: Any, **options: Any) -> Any:
        if faults:
            raise faults.pop()
        return read(log, *arguments, **options)

    # A fenced follower: nothing waits for what it has.
    leader.apply(broker(2, D2, directory_id(21), fenced=True), change(isr=(1,)))
    broken = leader.fetch(0, follower=True)
    consumer = leader.fetch(0)
    monkeypatch.setattr(PartitionLog, "read", read_later)

    result = await leader.host.produced(batch())

    assert result.error_code is ErrorCode.NONE
    with pytest.raises(RuntimeError, match="fault of this program"):
        await asyncio.wait_for(broken, DEADLINE_S)
    assert (await got(consumer)).records_size > 0


async def found_offset(leader: Leader, timestamp: int) -> tuple[ErrorCode, int]:
    query = OffsetQuery(topic_partition=TP, timestamp=timestamp)
    (answer,) = await leader.host.manager.offsets.list_offsets([query], BrokerId(-1), 0)
    return answer.error_code, answer.offset


async def test_what_is_not_known_to_be_replicated_is_found_by_no_time_and_no_largest_one(
    leader: Leader,
) -> None:
    await leader.append(1)

    assert await found_offset(leader, -3) == (ErrorCode.NONE, -1)
    assert await found_offset(leader, 500) == (ErrorCode.NONE, -1)

    # An earlier leader may have shown more than this one knows to be replicated.
    leader.apply(change(leader=1))
    for timestamp in (-1, -3, 500, 10**12):
        code, _ = await found_offset(leader, timestamp)
        assert code is ErrorCode.OFFSET_NOT_AVAILABLE, timestamp
    assert await found_offset(leader, -2) == (ErrorCode.NONE, 0)
    assert await found_offset(leader, -5) == (ErrorCode.NONE, -1)

    leader.fetch(1, follower=True)
    assert await found_offset(leader, -3) == (ErrorCode.NONE, 0)
    assert await found_offset(leader, 500) == (ErrorCode.NONE, 0)
    assert await found_offset(leader, 10**12) == (ErrorCode.NONE, -1)


async def test_waiting_fetch_is_answered_with_the_new_leader(leader: Leader) -> None:
    waiting = leader.fetch(0)

    leader.apply(change(leader=2))

    answer = now(waiting)
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.leader_hint is not None
    assert (answer.leader_hint.leader, answer.leader_hint.leader_epoch) == (2, 1)


async def test_followers_waiting_fetch_is_answered_when_the_leader_epoch_rises(
    leader: Leader,
) -> None:
    waiting = leader.fetch(0, fetch_entry(0, current_leader_epoch=0), follower=True)

    leader.apply(change(leader=1))

    assert now(waiting).error_code is ErrorCode.FENCED_LEADER_EPOCH


async def test_offline_replica_names_the_new_leader_once_the_metadata_has_it(
    leader: Leader,
) -> None:
    leader.apply(change(leader=1, isr=(1,)))
    leader.fail()
    assert now(leader.fetch(0)).error_code is ErrorCode.KAFKA_STORAGE_ERROR

    leader.apply(change(leader=2, isr=(2,)))

    answer = now(leader.fetch(0))
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.leader_hint is not None
    assert answer.leader_hint.leader == 2


async def test_fetch_without_data_is_answered_when_its_wait_is_over(leader: Leader) -> None:
    answer = await got(leader.fetch(0, max_wait_ms=10))

    assert (answer.error_code, answer.records_size) == (ErrorCode.NONE, 0)
    assert leader.partition.waiters.count == 0


async def test_fetch_waits_until_there_is_as_much_as_it_wants(leader: Leader) -> None:
    size = len(batch())
    waiting = leader.fetch(0, follower=True, min_bytes=2 * size)

    await leader.append()
    assert not waiting.done()
    await leader.append()

    assert (await got(waiting)).records_size == 2 * size


async def test_cancelled_fetch_leaves_nothing_behind(leader: Leader) -> None:
    waiting = leader.fetch(0)
    assert leader.partition.waiters.count == 1

    waiting.cancel()
    await asyncio.sleep(0)

    assert leader.partition.waiters.count == 0


async def test_epochs_and_offsets_of_a_fetch_are_checked(leader: Leader) -> None:
    await leader.append(2)
    leader.apply(change(leader=1))

    def code(wanted: FetchEntry, **arguments: int) -> ErrorCode:
        return now(leader.fetch(0, wanted, **arguments)).error_code  # type: ignore[arg-type]

    assert code(fetch_entry(0, current_leader_epoch=0)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(fetch_entry(0, current_leader_epoch=2)) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert code(fetch_entry(3)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code(fetch_entry(0, topic_id=TopicId(D2))) is ErrorCode.INCONSISTENT_TOPIC_ID
    unknown = TopicPartition("nowhere", 0)
    assert code(fetch_entry(0, unknown)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    old = leader.fetch(0, follower=True, replica_epoch=6)
    assert now(old).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (8, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_who_is_not_registered_with_its_broker_epoch_moves_no_high_watermark(
    leader: Leader, epoch: int, code: ErrorCode
) -> None:
    await leader.append(2)
    before = leader.partition.high_watermark

    found = leader.fetch(2, follower=True, replica_epoch=epoch)

    assert now(found).error_code is code
    assert leader.partition.high_watermark == before


async def test_follower_that_left_the_log_is_told_where(leader: Leader) -> None:
    await leader.append(2)
    leader.apply(change(leader=1), change(leader=1))
    await leader.append(1)

    answer = now(leader.fetch(0, fetch_entry(5, last_fetched_epoch=1), follower=True))

    assert answer.diverging_epoch is not None
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 2)
    assert answer.records_size == 0


async def test_first_batch_is_sent_however_small_the_limits(leader: Leader) -> None:
    await leader.append()
    await leader.append(topic_partition=OTHER)
    wanted = [fetch_entry(0, partition_max_bytes=1), fetch_entry(0, OTHER, partition_max_bytes=1)]

    answers = await leader.fetch(0, *wanted, follower=True, max_bytes=1)

    assert [answer.records_size for answer in answers] == [len(batch()), 0]


async def test_hanging_disk_does_not_hold_up_what_other_disks_have(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.fetch.fetch_answer.READ_WAIT_MAX_S", 0.05)

    await leader.append()
    await leader.append(topic_partition=OTHER)
    leader.log.tail.clear()
    release = threading.Event()
    hanging = leader.host.dirs[0].run(release.wait)

    answers = await asyncio.wait_for(
        leader.fetch(0, fetch_entry(0), fetch_entry(0, OTHER), follower=True, max_bytes=1 << 22),
        DEADLINE_S,
    )

    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * 2
    assert [answer.records_size for answer in answers] == [0, len(batch())]
    release.set()
    await hanging


@pytest.mark.parametrize("max_wait_ms", [0, 1])
async def test_a_fetch_of_very_many_partitions_lets_others_have_their_turn(
    leader: Leader, max_wait_ms: int
) -> None:
    await leader.append()
    turns_had = 0

    async def another() -> None:
        nonlocal turns_had
        while True:
            await asyncio.sleep(0)
            turns_had += 1

    other = asyncio.create_task(another())
    await turns()
    at_end = [fetch_entry(0)] * (3 * PART_ENTRIES)
    answer = leader.fetch(0, *at_end, max_wait_ms=max_wait_ms)
    if max_wait_ms:
        await asyncio.sleep(0.001 * max_wait_ms)
    begun = turns_had
    results = await answer
    other.cancel()
    assert turns_had - begun >= 3
    assert {result.error_code for result in results} == {ErrorCode.NONE}
    assert len(results) == len(at_end)


async def test_parts_of_a_fetch_share_what_it_may_take(leader: Leader) -> None:
    await leader.append()
    wanted = [fetch_entry(0)] * (PART_ENTRIES + 2)
    results = await leader.fetch(0, *wanted, max_wait_ms=0, max_bytes=1, follower=True)
    assert [at for at, result in enumerate(results) if result.records_size] == [0]


async def test_a_client_that_goes_while_its_fetch_is_answered_in_parts_is_forgotten(
    leader: Leader,
) -> None:
    await leader.append()
    answer = leader.fetch(0, *[fetch_entry(0)] * (3 * PART_ENTRIES), max_wait_ms=0)
    answer.cancel()
    for _ in range(3):
        # As many as the parts would have taken.
        await asyncio.sleep(0)
    assert not [each for each in asyncio.all_tasks() if each.get_name() == "fetch in parts"]
