"""Replicas in directories without room: what is refused, what pauses, and what goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.disk.calls.replica_files import ReplicaLostError
from broker.fetch.fetch_requests import FetchResult
from broker.replica.replica_state import Following, Leading, Offline
from broker.replica.waiting.append_entries import AppendResult
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.disks import CrampedDisk
from tests.broker.fetch.requests import fetch_entry, fetch_params
from tests.broker.pair import Pair
from tests.broker.replica.watched import NO_ROOM, RESERVED, ROOM, look, watch
from tests.broker.replicas import (
    DEADLINE_S,
    TP,
    Host,
    batch,
    change,
    config,
    partition_record,
    until,
)
from tests.broker.stage import THREE, TWO, Stage, appended, code, tp
from tests.waiting import quiet

TIMED_OUT, NONE = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE


class Alone(Stage):
    """Broker 1 leads alone."""

    def __init__(self, root: Path, **arguments: object) -> None:
        super().__init__(root, **arguments)
        self.monitor = watch(self.host)

    def look(self, free_bytes: int, number: int = 0) -> None:
        look(self.monitor, self.host.dirs[number], free_bytes)

    async def sent(self, sequence: int, timeout_ms: int = 30_000) -> AppendResult:
        records = batch(producer_id=5, sequence=sequence)
        return await self.host.produced(records, timeout_ms=timeout_ms)


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Alone]:
    async with Alone(tmp_path) as alone:
        await alone.begin()
        yield alone


def consumed(host: Host, offset: int) -> asyncio.Future[list[FetchResult]]:
    return host.manager.fetches.fetch(fetch_params(), [fetch_entry(offset)])


async def test_an_append_waits_for_room_in_a_full_directory_and_everything_else_goes_on(
    alone: Alone,
) -> None:
    host, partition = alone.host, alone.partition
    first = await host.produced(batch(producer_id=5, sequence=0))
    alone.look(NO_ROOM)

    # Answered while the directory is full: it needs no room.
    repeated = await host.produced(batch(producer_id=5, sequence=0))
    assert (repeated.error_code, repeated.base_offset) == (NONE, first.base_offset)
    waiting = [host.produce(batch(producer_id=5, sequence=n), acks=-1) for n in (1, 2)]
    waiting += [host.produce(batch(producer_id=5, sequence=3), acks=1)]
    await quiet(host.dirs)
    assert not any(each.done() for each in waiting)
    assert isinstance(partition.state, Leading)
    assert alone.end == 1, "what waits gets no offset"
    (fetched,) = await consumed(host, 0)
    assert fetched.records_size > 0

    alone.look(ROOM)
    results = [await appended(each) for each in waiting]
    assert [(each.error_code, each.base_offset) for each in results] == [
        (NONE, n) for n in (1, 2, 3)
    ]


async def test_what_waits_for_room_is_sent_to_the_next_leader(cluster: Stage) -> None:
    monitor = watch(cluster.host)
    look(monitor, cluster.host.dirs[0], NO_ROOM)
    waiting = cluster.host.produce(batch())
    await quiet(cluster.host.dirs)
    assert not waiting.done()

    cluster.apply(change(leader=2, isr=(2, 3)))

    result = await appended(waiting)
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert result.leader_hint is not None


@pytest.mark.parametrize("is_blocked_first", [True, False])
@pytest.mark.parametrize("acks", [-1, 1])
async def test_a_batch_whose_write_finds_no_room_is_sent_to_the_next_leader(
    tmp_path: Path, acks: int, is_blocked_first: bool
) -> None:
    """Followers may have the batch before its leader has written it."""

    disk = CrampedDisk()
    cluster = Stage(tmp_path, fs=disk)
    await cluster.begin(1, 2, 3, min_insync_replicas="2")
    disk.left = 0
    waiting = cluster.host.produce(batch(), acks=acks)
    if is_blocked_first:
        await until(lambda: cluster.log.is_blocked)
    cluster.fetched(TWO, 1)
    cluster.fetched(THREE, 1)
    assert not waiting.done()

    cluster.apply(change(leader=2, isr=(2, 3)))

    result = await appended(waiting)
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert result.leader_hint is not None
    disk.left = None
    await cluster.stop()


async def test_batches_behind_one_whose_time_was_over_do_not_overtake_it(alone: Alone) -> None:
    def sent(sequence: int, timeout_ms: int = 30_000) -> asyncio.Future[list[AppendResult]]:
        records = batch(producer_id=5, sequence=sequence)
        return alone.host.produce(records, timeout_ms=timeout_ms)

    await sent(0)
    alone.look(NO_ROOM)
    refused = [sent(1, 20), sent(2)]
    await appended(refused[0])
    alone.look(ROOM)
    refused += [sent(3), sent(4)]
    # A batch that has reached the log before is told as ever.
    (repeated,) = await sent(0)
    again = [sent(sequence) for sequence in (1, 2, 3, 4)]

    assert [await code(each) for each in refused] == [TIMED_OUT] * 4
    assert (repeated.error_code, repeated.base_offset) == (NONE, 0)
    assert [(await each)[0].base_offset for each in again] == [1, 2, 3, 4]


async def test_what_was_refused_and_never_comes_again_leaves_a_gap_in_the_end(alone: Alone) -> None:
    await alone.sent(0)
    alone.look(NO_ROOM)
    await alone.sent(1, timeout_ms=20)
    alone.look(ROOM)

    codes = [(await alone.sent(sequence)).error_code for sequence in range(2, 8)]

    # A producer has at most five batches under way.
    assert codes == [TIMED_OUT] * 4 + [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2


async def test_a_producer_that_runs_ahead_of_the_disk_is_stopped_before_the_reserve(
    alone: Alone,
) -> None:
    host = alone.host
    alone.look(RESERVED + 50_000)

    # Sent in one turn of the loop: nothing of it is written before the last is judged.
    requests = [host.produce(batch(value=bytes(9_000))) for _ in range(20)]
    await asyncio.wait_for(asyncio.gather(*requests[:5]), DEADLINE_S)
    await quiet(host.dirs)

    assert not any(each.done() for each in requests[5:])
    assert host.dirs[0].condition.is_full
    assert host.dirs[0].is_online
    assert host.dirs[0].space.refused_count == 1, "the others wait behind it"
    alone.look(ROOM)
    results = [await appended(each) for each in requests]
    assert [each.base_offset for each in results] == [*range(20)]


async def test_replicas_in_other_directories_are_not_concerned(alone: Alone) -> None:
    alone.look(NO_ROOM, 1)

    assert (await alone.host.produced(batch())).error_code is NONE


async def test_a_follower_in_a_full_directory_pauses_and_catches_up_with_room(pair: Pair) -> None:
    monitor = watch(pair.two.host)
    disk = pair.two.host.dirs[0]
    await pair.produced(pair.one, batch(2))
    look(monitor, disk, NO_ROOM)
    # As the controller does when it hears of the full directory.
    pair.apply(change(isr=(1,)))

    assert (await pair.produced(pair.one, batch(3))).error_code is NONE, "nobody waits for it"
    await quiet(pair.two.host.dirs)
    assert pair.two.end_offset == 2
    assert isinstance(pair.two.replica.state, Following)
    assert pair.one.host.proposals.proposed == [], "who pauses does not join"

    look(monitor, disk, ROOM)

    await until(lambda: pair.two.end_offset == 5)
    await until(lambda: pair.one.host.proposals.proposed[-1:] == [(1, 2)])
    assert pair.two.content() == pair.one.content()


@pytest.mark.stage(fetch_wait_max_ms=60_000)
async def test_below_min_isr_what_was_acknowledged_can_be_read_and_nothing_more(pair: Pair) -> None:
    """The disk of a leader is full, and so is that of the only other member of the ISR."""

    monitor = watch(pair.one.host)
    pair.apply(config("min.insync.replicas", "2"))
    await pair.produced(pair.one, batch(3))
    assert pair.one.replica.high_watermark == 3
    assert pair.two.replica.high_watermark < 3, "a follower hears of it with the next records"
    look(monitor, pair.one.host.dirs[0], NO_ROOM)
    # As the controller does when it hears of the full directory.
    pair.apply(change(isr=(2,), leader=2))

    await until(lambda: pair.two.replica.high_watermark == 3)
    refused = await pair.produced(pair.two, batch())
    written = await pair.produced(pair.two, batch(), acks=1)
    await quiet(pair.two.host.dirs)

    assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert written.error_code is NONE
    assert pair.two.end_offset == 4
    assert pair.two.replica.high_watermark == 3
    assert pair.two.host.proposals.proposed == [], "who takes no records does not join"


async def test_what_a_follower_has_no_room_for_is_put_off_not_lost(pair: Pair) -> None:
    monitor = watch(pair.two.host)
    disk = pair.two.host.dirs[0]
    look(monitor, disk, RESERVED + 20_000)

    produced = pair.one.host.produce(batch(value=bytes(50_000)))
    await until(lambda: disk.condition.is_full)
    assert pair.two.end_offset == 0
    assert disk.is_online

    look(monitor, disk, ROOM)
    (result,) = await asyncio.wait_for(produced, 10)
    assert result.error_code is NONE
    assert pair.two.end_offset == 1


async def test_a_replica_that_comes_into_a_full_directory_begins_to_follow_with_room(
    pair: Pair,
) -> None:
    monitor = watch(pair.two.host)
    disk = pair.two.host.dirs[0]
    look(monitor, disk, NO_ROOM)
    second = tp(1)
    directories = (pair.one.host.directory(0), pair.two.host.directory(0))
    pair.apply(partition_record((1, 2), directories, index=1))
    follower = await pair.two.host.online(second)
    produced = pair.one.host.produce(batch(), topic_partition=second)
    await quiet(pair.two.host.dirs)
    assert not produced.done()

    look(monitor, disk, ROOM)

    (result,) = await asyncio.wait_for(produced, 10)
    assert result.error_code is NONE
    assert follower.log is not None
    assert follower.log.written_end == 1


async def test_the_high_watermark_waits_no_longer_for_who_was_put_out_of_the_isr(
    cluster: Stage,
) -> None:
    produced = cluster.host.produce(batch())
    await cluster.written()
    cluster.fetched(TWO, 1)
    assert not produced.done()

    # Follower 3 was caught up until now, its directory is online, and it is out.
    cluster.apply(change(isr=(1, 2)))

    (result,) = await asyncio.wait_for(produced, 1)
    assert result.error_code is NONE
    # It counts again as soon as it fetches.
    cluster.fetched(THREE, 1)
    assert cluster.host.proposals.proposed == [(1, 2, 3)]


def replicas_in(host: Host) -> list[int]:
    return [sum(entry.is_dir() for entry in log_dir.path.iterdir()) for log_dir in host.dirs]


@pytest.mark.stage(dir_count=3)
async def test_new_replicas_avoid_full_directories(stage: Stage) -> None:
    look(watch(stage.host), stage.host.dirs[1], NO_ROOM)

    await stage.begin(directory=UNASSIGNED, partitions=4)

    assert replicas_in(stage.host) == [2, 0, 2]


@pytest.mark.stage(dir_count=1)
async def test_where_all_are_full_empty_replicas_are_created_while_half_of_the_reserve_is_left(
    stage: Stage,
) -> None:
    host = stage.host
    monitor = watch(host)
    look(monitor, host.dirs[0], RESERVED - 1)

    stage.describe(directory=UNASSIGNED, partitions=8)
    # 99999 bytes, 16 KiB for each replica, and 50000 that stay.
    await until(lambda: replicas_in(host) == [3])
    await quiet(host.dirs)
    assert replicas_in(host) == [3]
    assert not any(log_dir.space.takes(1) for log_dir in host.dirs)

    look(monitor, host.dirs[0], ROOM)
    for index in range(8):
        await host.online(tp(index))
    assert replicas_in(host) == [8]


async def test_a_replica_is_created_where_it_was_assigned_even_if_that_is_full(
    stage: Stage,
) -> None:
    look(watch(stage.host), stage.host.dirs[1], NO_ROOM)

    await stage.begin(directory=stage.host.directory(1))

    assert stage.log.log_dir is stage.host.dirs[1]


async def test_a_replica_that_was_removed_by_hand_is_logged_once_without_a_traceback(
    alone: Alone, caplog: pytest.LogCaptureFixture
) -> None:
    files = alone.log.files

    def lost(*_: object) -> None:
        raise ReplicaLostError(files.directory)

    files.carry_out = lost  # type: ignore[method-assign, assignment]
    result = await alone.host.produced(batch())

    assert result.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(alone.partition.state, Offline)
    assert alone.host.dirs[0].is_online
    found = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(found) == 1
    assert found[0].exc_info is None


async def test_following_that_fails_again_and_again_is_logged_once(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monitor = watch(pair.two.host)
    disk = pair.two.host.dirs[0]
    look(monitor, disk, NO_ROOM)
    await pair.produced(pair.one, batch(value=b"precious"), acks=1)
    leader_log = pair.one.replica.log
    assert leader_log is not None
    segment = next(leader_log.files.directory.glob("*.log"))
    segment.write_bytes(segment.read_bytes().replace(b"precious", b"spurious"))
    leader_log.tail.clear()

    look(monitor, disk, ROOM)
    lane = pair.two.host.fetchers._lane_of[TP]
    await until(lambda: (f := lane._replicas.get(TP)) is not None and f.failures > 3)

    complaints = [
        record
        for record in caplog.records
        if "replication of orders-0 failed" in record.message and record.levelno > logging.DEBUG
    ]
    assert len(complaints) == 1
