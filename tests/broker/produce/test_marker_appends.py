"""Markers at the leaders of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.produce.marker_appends import MarkerAppends, TransactionMarker
from broker.replica.partition.partition import Partition
from broker.replica.waiting.append_entries import AppendResult, BatchTransaction
from jbodlab.record_batch.record_batch import TRANSACTIONAL
from jbodlab.storage.log.transactions import ABORT, Marker
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.vocabulary.producer import Producer
from tests.broker.replicas import TP, batch, change, has_partition
from tests.broker.stage import TWO, Stage
from tests.waiting import AdjustableLoop, runner_on, set_forward, turns

runner = runner_on(AdjustableLoop)

P = Producer(7, 0)
TRANSACTION = BatchTransaction(transactional_id="t", knows_abortable=True, adds_partitions=True)
OF_GROUP = TopicPartition("__consumer_offsets", 3)


class Groups:
    """Remembers what ends, and answers what the test says."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, Producer, Marker, bool]] = []
        self.result: KafkaError | None = None
        self.raises: KafkaError | None = None

    def end_transaction(
        self, partition: int, producer: Producer, marker: Marker, *, bumps_epoch: bool = False
    ) -> asyncio.Future[None]:
        if self.raises is not None:
            raise self.raises
        self.ended.append((partition, producer, marker, bumps_epoch))
        future = asyncio.get_running_loop().create_future()
        if self.result is None:
            future.set_result(None)
        else:
            future.set_exception(self.result)
        return future


class Leader(Stage):
    """A partition that broker 1 leads and broker 2 follows."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.groups = Groups()
        loop = asyncio.get_running_loop()
        self.markers = MarkerAppends(self.host.registry, self.groups, loop, lambda: 1234)

    async def begin(self, *_: int, **described: Any) -> Partition:
        return await super().begin(1, 2, min_insync_replicas="2", **described)

    def open(self, producer: Producer = P) -> None:
        """Open a transaction."""
        has_partition(self.partition, producer)
        records = batch(
            producer_id=producer.producer_id,
            epoch=producer.producer_epoch,
            sequence=0,
            attributes=TRANSACTIONAL,
        )
        self.host.produce(records, transaction=TRANSACTION)

    async def replicate(self) -> None:
        await self.written()
        self.fetched(TWO, self.end)
        await turns()

    @property
    def stable(self) -> int:
        return self.log.last_stable_offset(self.partition.high_watermark)


def marker(
    epoch: int = 1,
    *,
    producer_id: int = P.producer_id,
    coordinator_epoch: int = 3,
    version: int = 2,
    is_committed: bool = False,
    partitions: tuple[TopicPartition, ...] = (TP,),
) -> TransactionMarker:
    return TransactionMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        is_committed=is_committed,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
        partitions=partitions,
    )


async def codes(future: asyncio.Future[list[AppendResult]]) -> list[ErrorCode]:
    return [each.error_code for each in await asyncio.wait_for(future, 10)]


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    async with Leader(tmp_path) as leader:
        await leader.begin()
        yield leader


async def test_a_marker_ends_the_transaction_and_is_answered_when_it_is_replicated(
    leader: Leader,
) -> None:
    leader.open()
    await leader.replicate()
    assert leader.stable == 0

    written = leader.markers.write_markers([marker()])
    await turns()
    assert not written.done()
    assert leader.stable == 0, "the marker is not replicated"
    await leader.replicate()

    assert await codes(written) == [ErrorCode.NONE]
    assert leader.stable == 2
    assert await leader.log.aborted_between(0, 2) == [(7, 0)]
    entry = leader.log.producers.entry(7)
    assert entry is not None
    assert (entry.epoch, entry.coordinator_epoch, entry.last_timestamp) == (1, 3, 1234)


async def test_a_marker_that_comes_again_is_answered_when_the_first_one_is_replicated(
    leader: Leader,
) -> None:
    leader.open()
    first = leader.markers.write_markers([marker()])
    again = leader.markers.write_markers([marker(coordinator_epoch=4)])
    await turns()
    assert (leader.end, again.done()) == (2, False)

    await leader.replicate()

    assert await codes(first) == await codes(again) == [ErrorCode.NONE]


async def test_with_transaction_version_1_a_marker_is_written_again(leader: Leader) -> None:
    leader.open()
    for _ in range(2):
        written = leader.markers.write_markers([marker(0, version=0)])
        await leader.replicate()
        assert await codes(written) == [ErrorCode.NONE]
    assert leader.end == 3


async def test_a_coordinator_that_was_deposed_is_fenced_and_an_old_epoch_refused(
    leader: Leader,
) -> None:
    leader.markers.write_markers([marker(4, coordinator_epoch=5)])
    await leader.replicate()

    refused = leader.markers.write_markers([marker(5, coordinator_epoch=4), marker(3), marker(6)])
    refused_too = leader.markers.write_markers([marker(3, coordinator_epoch=5)])
    await leader.replicate()

    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await codes(refused) == [fenced] * 3
    assert await codes(refused_too) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert leader.end == 1


async def test_the_next_transaction_is_not_ended_by_the_marker_of_the_last_one(
    leader: Leader,
) -> None:
    leader.open()
    leader.markers.write_markers([marker(1)])
    leader.open(Producer(7, 1))
    await leader.replicate()

    again = leader.markers.write_markers([marker(1)])

    assert await codes(again) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert leader.stable == 2


async def test_partitions_that_are_not_led_here_are_refused(leader: Leader) -> None:
    gone = TopicPartition("gone", 0)
    refused = leader.markers.write_markers([marker(partitions=(gone,))])
    assert await codes(refused) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    leader.apply(change(leader=2))
    refused = leader.markers.write_markers([marker()])
    assert await codes(refused) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_who_waits_for_a_marker_hears_at_once_that_the_leader_is_another(
    leader: Leader,
) -> None:
    written = leader.markers.write_markers([marker()])
    await turns()
    await leader.written()

    leader.apply(change(leader=2, isr=(2,)))

    assert await codes(written) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_who_waits_for_a_marker_hears_at_once_that_the_directory_died(leader: Leader) -> None:
    written = leader.markers.write_markers([marker()])
    await turns()

    leader.partition.go_offline("the disk is gone")
    leader.apply(change(leader=2, isr=(2,)))

    (code,) = await codes(written)
    assert code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_no_marker_is_written_below_min_isr(tmp_path: Path) -> None:
    async with Leader(tmp_path) as leader:
        await leader.begin(isr=(1,))

        written = leader.markers.write_markers([marker()])

        assert await codes(written) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert leader.end == 0


async def test_a_marker_that_is_not_replicated_in_time_is_unknown(leader: Leader) -> None:
    written = leader.markers.write_markers([marker()])
    await turns()

    set_forward(6)

    assert await codes(written) == [ErrorCode.REQUEST_TIMED_OUT]


async def test_a_marker_waits_while_the_replica_changes_its_directory(leader: Leader) -> None:
    leader.partition.hold()
    written = leader.markers.write_markers([marker()])
    await turns()
    assert leader.end == 0

    leader.partition.release()
    await leader.replicate()

    assert await codes(written) == [ErrorCode.NONE]


@pytest.mark.parametrize("version", [0, 2])
async def test_partitions_of_groups_are_ended_by_their_coordinators(
    leader: Leader, version: int
) -> None:
    written = leader.markers.write_markers([marker(partitions=(OF_GROUP,), version=version)])

    assert await codes(written) == [ErrorCode.NONE]
    assert leader.groups.ended == [(3, Producer(7, 1), Marker(ABORT, 3), version == 2)]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_errors_of_group_coordinators_become_those_of_partitions(
    leader: Leader, error: ErrorCode, expected: ErrorCode
) -> None:
    leader.groups.result = KafkaError(error)
    written = leader.markers.write_markers([marker(partitions=(OF_GROUP,))])
    assert await codes(written) == [expected]

    leader.groups.raises = KafkaError(error)
    written = leader.markers.write_markers([marker(partitions=(OF_GROUP,))])
    assert await codes(written) == [expected]
