"""Markers on their way to the leaders on this broker: refused, hanging, led by others, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from broker.produce.marker_appends import TransactionMarker
from broker.replica.waiting.append_entries import AppendResult
from broker.transaction_markers.marker_sender import MarkerSender
from broker.transactions.decision import MarkersDue
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, TopicPartition
from tests.waiting import turns

ME, OTHER = BrokerId(1), BrokerId(2)
A, B = TopicPartition("t", 0), TopicPartition("t", 1)
EPOCH = LeaderEpoch(3)
DEADLINE_S = 10.0


@dataclass
class Registration:
    leader: BrokerId
    leader_epoch: int
    disk: int

    def directory(self, broker_id: BrokerId) -> UUID:
        return UUID(int=self.disk)


class Cache:
    """Leaders of partitions; other brokers are not alive."""

    def __init__(self) -> None:
        self.partitions = {A: Registration(ME, 0, 1), B: Registration(ME, 0, 2)}
        self.listeners: list[Callable[[], None]] = []

    def change(self) -> None:
        for listener in self.listeners:
            listener()

    def partition(self, topic_partition: TopicPartition) -> Registration | None:
        return self.partitions.get(topic_partition)

    def peer(self, broker_id: BrokerId) -> None:
        return None


class Leaders:
    """Takes markers, and answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[TopicPartition, ...], asyncio.Future[Any]]] = []
        self.markers: list[TransactionMarker] = []

    def write_markers(
        self, markers: Sequence[TransactionMarker]
    ) -> asyncio.Future[list[AppendResult]]:
        self.markers += markers
        places = tuple(each for marker in markers for each in marker.partitions)
        future = asyncio.get_running_loop().create_future()
        self.asked.append((places, future))
        return future

    def answer(self, number: int, code: ErrorCode = ErrorCode.NONE) -> None:
        places, future = self.asked[number]
        future.set_result([AppendResult(topic_partition=each, error_code=code) for each in places])


class Stage:
    """A sender, the leaders, and which partitions are said to have their marker."""

    def __init__(self) -> None:
        self.cache, self.leaders = Cache(), Leaders()
        cache: Any = self.cache
        own: Any = self.leaders
        self.sender = MarkerSender(cache, ME, own)
        self.written: list[TopicPartition] = []

    async def send(self, *partitions: TopicPartition, name: str = "x", version: int = 2) -> None:
        due = MarkersDue(
            transactional_id=name,
            producer_id=7,
            producer_epoch=5,
            committed=True,
            transaction_version=version,
            partitions=partitions,
        )
        self.sender.send(0, EPOCH, due, lambda _, some: self.written.extend(some))
        await turns()

    async def asked(self, count: int) -> None:
        """Wait until so many requests were sent."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.leaders.asked) < count:  # noqa: ASYNC110 - a pause of the sender
                await asyncio.sleep(0.005)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    found = Stage()
    yield found
    await found.sender.close()


async def test_each_directory_has_a_request_of_its_own(stage: Stage) -> None:
    await stage.send(A, B)
    assert [places for places, _ in stage.leaders.asked] == [(A,), (B,)]
    # One of them hangs.
    stage.leaders.answer(1)
    await turns()
    assert stage.written == [B]
    assert stage.sender.waiting_count == 1


async def test_what_falls_due_together_travels_together(stage: Stage) -> None:
    stage.cache.partitions[B].disk = 1
    await stage.send(A, B)
    assert [places for places, _ in stage.leaders.asked] == [(A, B)]


async def test_a_marker_says_how_the_transaction_ended_and_who_says_so(stage: Stage) -> None:
    await stage.send(A)
    await stage.send(B, name="y", version=1)
    first, second = stage.leaders.markers
    assert first == TransactionMarker(
        producer_id=7,
        producer_epoch=5,
        is_committed=True,
        coordinator_epoch=EPOCH,
        transaction_version=2,
        partitions=(A,),
    )
    assert second.transaction_version == 0


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_TXN_STATE,
    ],
)
async def test_a_marker_that_is_refused_is_sent_again(stage: Stage, code: ErrorCode) -> None:
    await stage.send(A)
    for number in range(2):
        stage.leaders.answer(number, code)
        await stage.asked(number + 2)
    assert stage.written == []
    assert stage.sender.refusals == {code: 2}
    stage.leaders.answer(2)
    await turns()
    assert stage.written == [A]
    assert stage.sender.waiting_count == 0


async def test_a_leader_that_owes_an_answer_is_not_asked_again(stage: Stage) -> None:
    await stage.send(A)
    stage.cache.change()
    await turns()
    assert len(stage.leaders.asked) == 1


async def test_a_replica_that_changes_its_directory_is_not_asked_again(stage: Stage) -> None:
    await stage.send(A)
    stage.cache.partitions[A].disk = 2
    stage.cache.change()
    await turns()
    assert len(stage.leaders.asked) == 1


async def test_the_next_leader_is_asked_although_the_last_one_owes_an_answer(stage: Stage) -> None:
    await stage.send(A)
    stage.cache.partitions[A] = Registration(ME, 1, 2)
    stage.cache.change()
    await turns()
    assert len(stage.leaders.asked) == 2
    stage.leaders.answer(1)
    await turns()
    assert stage.written == [A]
    stage.leaders.answer(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await turns()
    assert (len(stage.leaders.asked), stage.written) == (2, [A])


async def test_without_a_leader_a_marker_waits_for_the_metadata(stage: Stage) -> None:
    stage.cache.partitions[A].leader = OTHER
    await stage.send(A)
    assert not stage.leaders.asked
    stage.cache.partitions[A].leader = ME
    stage.cache.change()
    await turns()
    assert len(stage.leaders.asked) == 1


async def test_a_partition_that_is_deleted_needs_no_marker(stage: Stage) -> None:
    await stage.send(A, B)
    del stage.cache.partitions[A]
    stage.cache.change()
    await turns()
    assert stage.written == [A]


async def test_of_a_coordinator_that_ended_nothing_is_sent_or_told_any_more(stage: Stage) -> None:
    await stage.send(A, B)
    stage.sender.coordinator_ended(0)
    stage.leaders.answer(0)
    stage.leaders.answer(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await turns()
    stage.cache.change()
    await turns()
    assert (len(stage.leaders.asked), stage.written) == (2, [])


async def test_a_directory_has_few_requests_under_way_and_the_rest_travels_together(
    stage: Stage,
) -> None:
    for number in range(7):
        await stage.send(A, name=f"x-{number}")
    assert len(stage.leaders.asked) == 4
    stage.leaders.answer(0)
    await turns()
    assert [places for places, _ in stage.leaders.asked[4:]] == [(A, A, A)]
