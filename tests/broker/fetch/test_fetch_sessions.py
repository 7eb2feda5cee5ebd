"""Fetch sessions: a follower names a partition once, and hears of it whenever there is news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from broker.fetch.fetch_requests import FetchEntry, SessionFetched, SessionRequest
from broker.replica.log.partition_log import PartitionLog
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicIdPartition
from tests.broker.fetch.requests import fetch_entry, fetch_params
from tests.broker.replicas import DEADLINE_S, TOPIC_ID, batch, broker, change
from tests.broker.stage import D2, TWO, Stage, tp
from tests.waiting import set_forward, turns

LONG_MS = 60_000


def entry(index: int, offset: int = 0, *, epoch: int = 0, last_epoch: int = -1) -> FetchEntry:
    epochs = {"current_leader_epoch": epoch, "last_fetched_epoch": last_epoch}
    return fetch_entry(offset, tp(index), **epochs)


class Leader(Stage):
    """Broker 1 leads three partitions that broker 2 follows; the tests are broker 2."""

    def __init__(self, root: Path, **options: bool) -> None:
        super().__init__(root, dir_count=1, **options)
        self.manager = self.host.manager
        self.session_id = 0
        self.epoch = 0

    def create(self, isr: Sequence[int] = (1, 2)) -> None:
        """Let the metadata name the partitions; their logs come later."""
        self.describe((1, 2), isr=isr, leader=1, partitions=3, min_insync_replicas="1")

    async def start(self, isr: Sequence[int] = (1, 2)) -> None:
        self.create(isr)
        for index in range(3):
            await self.host.online(tp(index))

    def fetch(
        self,
        *entries: FetchEntry,
        forgotten: Sequence[int] = (),
        max_wait_ms: int = LONG_MS,
        replica_epoch: int = 7,
    ) -> asyncio.Future[SessionFetched]:
        params = fetch_params(TWO, replica_epoch=replica_epoch, max_wait_ms=max_wait_ms)
        request = SessionRequest(
            session_id=self.session_id,
            epoch=self.epoch,
            forgotten=[TopicIdPartition(TOPIC_ID, index) for index in forgotten],
        )
        future = self.manager.sessions.fetch(params, request, entries)
        self.epoch += 1
        return future

    async def fetched(
        self, *entries: FetchEntry, **options: int | Sequence[int]
    ) -> dict[int, tuple[ErrorCode, int, int]]:
        """Return error, bytes and high watermark of each partition in the answer."""
        return await self.answer(self.fetch(*entries, **options))  # type: ignore[arg-type]

    async def answer(
        self, future: asyncio.Future[SessionFetched]
    ) -> dict[int, tuple[ErrorCode, int, int]]:
        fetched = await asyncio.wait_for(future, DEADLINE_S)
        self.session_id = fetched.session_id
        return {
            r.topic_partition.partition: (r.error_code, r.records_size, r.high_watermark)
            for r in fetched.results
        }

    async def begin_session(self) -> None:
        """Begin a session with all three partitions, which are quiet then."""
        found = await self.fetched(entry(0), entry(1), entry(2))
        assert set(found) == {0, 1, 2}
        assert self.session_id > 0

    async def quiet(self) -> None:
        assert await self.fetched(max_wait_ms=1) == {}


@pytest.fixture
async def leader(tmp_path: Path, options: dict[str, bool]) -> AsyncIterator[Leader]:
    has_begun = options.pop("has_begun", True)
    async with Leader(tmp_path, **options) as leader:
        if has_begun:
            await leader.start()
            await leader.begin_session()
        yield leader


async def test_answers_contain_only_what_has_news(leader: Leader) -> None:
    await leader.quiet()
    waiting = leader.fetch()
    await leader.host.produced(batch(), acks=1, topic_partition=tp(1))
    found = await leader.answer(waiting)
    assert set(found) == {1}
    assert found[1][1] > 0


async def test_records_that_were_not_taken_are_sent_again(leader: Leader) -> None:
    await leader.host.produced(batch(), acks=1, topic_partition=tp(1))
    first = await leader.fetched()
    assert await leader.fetched() == first


async def test_high_watermark_that_moved_is_told_with_the_next_answer(leader: Leader) -> None:
    produced = leader.host.produce(batch(3), topic_partition=tp(0))
    assert set(await leader.fetched()) == {0}
    found = await leader.fetched(entry(0, 3, last_epoch=0), max_wait_ms=20)
    assert (await asyncio.wait_for(produced, DEADLINE_S))[0].error_code is ErrorCode.NONE
    assert found == {0: (ErrorCode.NONE, 0, 3)}
    await leader.quiet()


@pytest.mark.stage(sends_consumers_away=True)
async def test_high_watermark_is_told_at_once_where_followers_serve_consumers(
    leader: Leader,
) -> None:
    leader.host.produce(batch(3), topic_partition=tp(0))
    assert set(await leader.fetched()) == {0}

    found = await leader.fetched(entry(0, 3, last_epoch=0))

    assert found == {0: (ErrorCode.NONE, 0, 3)}
    waiting = leader.fetch()
    await turns()
    assert not waiting.done()
    # Some other than the one that was sent last.
    leader.partition_at(0).high_watermark = 2
    leader.partition_at(0).waiters.replicated(2)
    answer = await asyncio.wait_for(waiting, DEADLINE_S)
    assert [each.high_watermark for each in answer.results] == [2]


async def test_change_of_the_leader_answers_what_waits_with_an_error(leader: Leader) -> None:
    waiting = leader.fetch()
    await turns()
    leader.apply(change(leader=2, index=2))
    found = await leader.answer(waiting)
    assert {index: code for index, (code, _, _) in found.items()} == {
        2: ErrorCode.FENCED_LEADER_EPOCH
    }


async def test_all_partitions_of_a_failed_directory_are_in_one_answer(leader: Leader) -> None:
    waiting = leader.fetch()
    await turns()
    leader.fail()
    found = await leader.answer(waiting)
    assert {index: code for index, (code, _, _) in found.items()} == dict.fromkeys(
        range(3), ErrorCode.KAFKA_STORAGE_ERROR
    )


async def test_new_log_start_is_told(leader: Leader) -> None:
    produced = leader.host.produce(batch(3), topic_partition=tp(0))
    await leader.fetched()
    await leader.fetched(entry(0, 3, last_epoch=0), max_wait_ms=20)
    await produced
    await leader.quiet()
    leader.log.advance_start_to(2)
    leader.manager.log_start_moved(leader.log)
    assert set(await leader.fetched(max_wait_ms=20)) == {0}
    await leader.quiet()


async def test_quiet_follower_counts_as_caught_up_until_its_last_request(leader: Leader) -> None:
    set_forward(0.05)
    before_ms = int(asyncio.get_running_loop().time() * 1000)
    await leader.quiet()
    partition = leader.partition_at(1)
    assert partition.leader is not None
    assert partition.leader.followers[TWO].caught_up_ms < before_ms
    await leader.host.produced(batch(), acks=1, topic_partition=tp(1))
    assert partition.leader.followers[TWO].caught_up_ms >= before_ms
    assert partition.leader.followers[TWO].end_offset == 0


@pytest.mark.stage(has_begun=False)
async def test_follower_that_fetched_before_the_log_was_there_is_not_taken_for_lagging(
    leader: Leader,
) -> None:
    leader.create()
    # Both in one turn of the loop: no log is there before the second one waits.
    first = leader.fetch(entry(0), entry(1), entry(2))
    leader.session_id = first.result().session_id
    waiting = leader.fetch()
    assert all(leader.partition_at(index).log is None for index in range(3))
    for index in range(3):
        await leader.host.online(tp(index))
    await leader.answer(waiting)
    leader.manager.start()

    for _ in range(4):
        # Nothing is ever written, and the follower asks again and again.
        set_forward(15.0)
        await leader.fetched(max_wait_ms=1)
        await turns()

    assert leader.host.proposals.proposed == []
    for index in range(3):
        known = leader.partition_at(index).leader
        assert known is not None
        assert known.followers[TWO].end_offset == 0


@pytest.mark.stage(has_begun=False)
async def test_follower_outside_of_the_isr_is_looked_at_in_each_request(leader: Leader) -> None:
    await leader.start(isr=(1,))
    leader.apply(broker(2, D2, fenced=True))
    await leader.begin_session()
    await leader.quiet()
    assert leader.host.proposals.proposed == []
    leader.apply(broker(2, D2))
    await leader.quiet()
    assert leader.host.proposals.proposed == [(1, 2)] * 3


async def test_follower_that_left_the_isr_is_looked_at_again(leader: Leader) -> None:
    await leader.quiet()
    leader.apply(change(isr=(1,), index=1))
    await leader.quiet()
    assert leader.host.proposals.proposed == [(1, 2)]


async def test_new_broker_epoch_of_the_follower_reaches_all_partitions(leader: Leader) -> None:
    await leader.quiet()
    leader.apply(broker(2, D2, epoch=9))
    await leader.fetched(max_wait_ms=1, replica_epoch=9)
    for index in range(3):
        state = leader.partition_at(index).leader
        assert state is not None
        assert state.followers[TWO].broker_epoch == 9


async def test_old_broker_epoch_of_the_follower_is_refused(leader: Leader) -> None:
    leader.apply(broker(2, D2, epoch=8))
    found = await leader.fetched()
    assert {code for code, _, _ in found.values()} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_forgotten_partition_is_not_answered(leader: Leader) -> None:
    waiting = leader.fetch(forgotten=[1])
    await leader.host.produced(batch(), acks=1, topic_partition=tp(1))
    await leader.host.produced(batch(), acks=1, topic_partition=tp(2))
    assert set(await leader.answer(waiting)) == {2}


async def test_deleted_topic_is_told(leader: Leader) -> None:
    waiting = leader.fetch()
    await turns()
    leader.apply(RemoveTopicRecord(topic_id=TOPIC_ID))
    found = await leader.answer(waiting)
    assert {code for code, _, _ in found.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert set(found) == {0, 1, 2}


async def test_hurried_fetch_is_answered_with_what_there_is(leader: Leader) -> None:
    waiting = leader.fetch()
    await turns()
    assert not waiting.done()
    leader.manager.sessions.hurry(leader.session_id)
    assert await leader.answer(waiting) == {}


async def test_fetch_that_cannot_be_answered_does_not_wait_for_ever(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("fault of this program")

    waiting = leader.fetch()
    monkeypatch.setattr(PartitionLog, "read", broken)
    await leader.host.produced(batch(), acks=1, topic_partition=tp(0))
    with pytest.raises(RuntimeError, match="fault of this program"):
        await leader.answer(waiting)


async def test_partition_with_records_does_not_starve_the_others(leader: Leader) -> None:
    big = batch(value=b"x" * 900_000)
    for index in range(3):
        await leader.host.produced(big, acks=1, topic_partition=tp(index))
    seen: set[int] = set()
    for _ in range(3):
        seen |= {index for index, (_, size, _) in (await leader.fetched()).items() if size}
    assert seen == {0, 1, 2}


async def test_unknown_session_and_wrong_epoch_are_refused(leader: Leader) -> None:
    leader.epoch = 5
    with pytest.raises(KafkaError) as wrong_epoch:
        leader.fetch()
    assert wrong_epoch.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    leader.epoch, leader.session_id = 1, leader.session_id + 1
    with pytest.raises(KafkaError) as unknown:
        leader.fetch()
    assert unknown.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_new_session_takes_the_place_of_the_old_one(leader: Leader) -> None:
    old = leader.session_id
    leader.epoch = 0
    await leader.begin_session()
    assert leader.session_id != old
    assert len(leader.partition_at(0).waiters.sessions) == 1
