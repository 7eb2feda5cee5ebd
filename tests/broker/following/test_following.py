"""A follower takes over what its leader has, over the real protocol."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from broker.following.lane_replicas import LaneReplicas
from broker.produce.record_deletion import RecordDeletion
from broker.replica.replica_state import Offline
from jbodlab.runtime.machine import system_environment
from jbodlab.server.bounds import Bounds
from jbodlab.server.listener import Listener
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.pair import Pair
from tests.broker.replicas import DEADLINE_S, TP, batch, change, partition_record, until
from tests.waiting import turns


async def test_follower_has_the_leaders_bytes_when_acks_all_is_answered(pair: Pair) -> None:
    for count in (1, 3, 2):
        result = await pair.produced(pair.one, batch(count))
        assert result.error_code is ErrorCode.NONE

    assert pair.two.end_offset == 6
    assert pair.two.content() == pair.one.content()


async def test_follower_learns_the_high_watermark(pair: Pair) -> None:
    await pair.produced(pair.one, batch())

    await until(lambda: pair.two.replica.high_watermark == 1)


@pytest.mark.stage(fetch_wait_max_ms=600_000)
async def test_partition_that_is_added_does_not_wait_for_the_running_fetch(pair: Pair) -> None:
    """The leader would hold that fetch, in which the new one is not, for ten minutes."""

    directories = (pair.one.host.directory(0), pair.two.host.directory(0))
    for index in range(1, 4):
        pair.apply(partition_record((1, 2), directories, index=index))
        added = TP._replace(partition=index)
        await pair.one.host.online(added)
        await pair.two.host.online(added)
        result = await pair.one.host.produced(batch(), topic_partition=added)
        assert result.error_code is ErrorCode.NONE


async def test_follower_acknowledges_only_what_is_on_its_disk(pair: Pair) -> None:
    release = threading.Event()
    hanging = pair.two.host.dirs[0].run(release.wait)

    waiting = pair.one.host.produce(batch())
    follower = pair.two.replica.log
    assert follower is not None
    await until(lambda: follower.end_offset == 1)
    await turns()

    assert not waiting.done()
    release.set()
    await hanging
    (result,) = await asyncio.wait_for(waiting, DEADLINE_S)
    assert result.error_code is ErrorCode.NONE


async def test_follower_cuts_what_the_new_leader_does_not_have(pair: Pair) -> None:
    await pair.produced(pair.one, batch(2))
    # Broker 1 is cut off from the metadata: it goes on leading for itself alone.
    pair.metadata.listeners = (pair.two,)
    pair.apply(change(leader=2, isr=(2,)))
    await pair.produced(pair.one, batch(5), acks=1)
    assert pair.one.end_offset == 7
    assert (await pair.produced(pair.two, batch(3))).base_offset == 2

    pair.metadata.listeners = (pair.one,)
    pair.metadata.image = pair.one.cache.image
    pair.apply(change(leader=2, isr=(2,)))

    await until(lambda: pair.one.end_offset == 5)
    assert pair.one.content() == pair.two.content()
    assert pair.one.replica.high_watermark <= 5


async def test_follower_forgets_an_epoch_in_which_it_led_and_wrote_nothing(pair: Pair) -> None:
    await pair.produced(pair.one, batch(2))
    await until(lambda: pair.two.end_offset == 2)
    # Broker 2 leads for a moment; broker 1 hears of it only when it leads again.
    pair.metadata.listeners = (pair.two,)
    pair.apply(change(leader=2))
    pair.metadata.listeners = (pair.one, pair.two)
    pair.apply(change(leader=1))

    answer = await pair.produced(pair.one, batch(3))

    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 2)
    await until(lambda: pair.two.end_offset == 5)
    assert pair.one.content() == pair.two.content()


async def test_sequences_are_known_to_the_next_leader(pair: Pair) -> None:
    first = batch(2, producer_id=9, sequence=0)
    await pair.produced(pair.one, first)
    await pair.produced(pair.one, batch(1, producer_id=9, sequence=2))

    pair.apply(change(leader=2, isr=(2,)))

    again = await pair.produced(pair.two, first)
    gap = await pair.produced(pair.two, batch(producer_id=9, sequence=4))
    following = await pair.produced(pair.two, batch(producer_id=9, sequence=3))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    assert gap.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (following.error_code, following.base_offset) == (ErrorCode.NONE, 3)


async def test_returning_follower_catches_up_and_is_proposed_for_the_isr(pair: Pair) -> None:
    pair.apply(change(isr=(1,)))

    await pair.produced(pair.one, batch(4))

    await until(lambda: pair.one.host.proposals.proposed == [(1, 2)])
    await until(lambda: pair.two.end_offset == 4)


async def test_followers_dead_directory_stops_only_what_lies_in_it(pair: Pair) -> None:
    other = TP._replace(partition=1)
    pair.apply(
        partition_record((1, 2), (pair.one.host.directory(0), pair.two.host.directory(1)), index=1)
    )
    await pair.one.host.online(other)
    await pair.two.host.online(other)

    pair.two.host.log_dirs.fail(pair.two.host.dirs[0], "test")

    assert isinstance(pair.two.replica.state, Offline)
    result = await pair.one.host.produced(batch(), topic_partition=other)
    assert result.error_code is ErrorCode.NONE


async def test_follower_finds_a_leader_that_starts_to_listen_later(pair: Pair) -> None:
    await pair.one.listener.close()
    waiting = pair.one.host.produce(batch())
    listener = Listener(
        "PLAINTEXT",
        "127.0.0.1",
        pair.one.listener.port,
        pair.one.apis.dispatcher,
        Bounds(system_environment()),
    )
    await turns()
    pair.one.listener = listener

    await listener.start()

    (result,) = await asyncio.wait_for(waiting, DEADLINE_S)
    assert result.error_code is ErrorCode.NONE


@pytest.mark.parametrize("start", [3, 5], ids=["with a batch", "in the middle of a batch"])
async def test_follower_behind_the_leaders_start_begins_anew_there(pair: Pair, start: int) -> None:
    pair.two.host.fetchers.unfollow(TP)
    await pair.produced(pair.one, batch(3), acks=1)
    await pair.produced(pair.one, batch(4), acks=1)
    log = pair.one.replica.log
    assert log is not None
    # A batch of which some records are deleted stays whole.
    log.advance_start_to(start)

    pair.two.host.fetchers.follow(pair.two.replica)

    await until(lambda: pair.two.end_offset == 7)
    follower = pair.two.replica.log
    assert follower is not None
    assert follower.start_offset == start


@pytest.mark.stage(fetch_wait_max_ms=60_000)
async def test_records_are_deleted_everywhere_while_fetches_wait(pair: Pair) -> None:
    await pair.produced(pair.one, batch(10))

    deletion = RecordDeletion(topic_partition=TP, offset=6)
    deleting = pair.one.host.manager.delete_records([deletion], 60_000)
    answer = asyncio.ensure_future(deleting)

    (result,) = await asyncio.wait_for(answer, DEADLINE_S)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 6)
    for node in (pair.one, pair.two):
        assert node.replica.log is not None
        assert node.replica.log.start_offset == 6


# Nobody waits for the end of a fetch's time.


@pytest.mark.stage(fetch_wait_max_ms=60_000)
async def test_replica_that_comes_while_a_fetch_waits_is_followed_at_once(pair: Pair) -> None:
    await pair.produced(pair.one, batch())
    other = TopicPartition(TP.topic, 1)
    directories = (pair.one.host.directory(0), pair.two.host.directory(0))
    # The one connection of the lane is in the middle of a fetch that waits for a minute.
    pair.apply(partition_record((1, 2), directories, index=1))
    await pair.one.host.online(other)
    result = await pair.one.host.produced(batch(), topic_partition=other)
    assert result.error_code is ErrorCode.NONE
    # The first one is still followed in the same session.
    assert (await pair.produced(pair.one, batch())).base_offset == 1
    partition = pair.one.replica
    assert len(partition.waiters.sessions) == 1


async def test_a_lane_that_breaks_begins_anew(
    pair: Pair, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pair.produced(pair.one, batch())
    broken = iter([True])
    settled = LaneReplicas.settled

    async def settled_or_broken(self: LaneReplicas) -> None:
        if next(broken, False):
            raise ZeroDivisionError
        await settled(self)

    monkeypatch.setattr(LaneReplicas, "settled", settled_or_broken)
    assert (await pair.produced(pair.one, batch(2))).error_code is ErrorCode.NONE
    await until(lambda: pair.two.end_offset == 3)
    assert "ended unexpectedly; restarting it" in caplog.text


async def test_a_follower_whose_disk_lost_the_first_segments_copies_the_log_before_the_leader_hears(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        await pair.produced(pair.one, batch(2))
    log = pair.two.replica.log
    assert log is not None
    log.state.start_offset, log.state.lost_from = 4, 0
    told: list[tuple[int, int]] = []
    leading = pair.one.replica.in_sync
    real = leading.follower_fetched

    def fetched(*args: Any, **options: Any) -> Any:
        told.append((log.state.start_offset, log.end_offset))
        return real(*args, **options)

    leading.follower_fetched = fetched  # type: ignore[method-assign]

    pair.apply(change(leader=1, isr=(1,)))

    await until(lambda: pair.two.end_offset == 6 and log.state.lost_from is None)
    assert told[0] == (0, 0)
    assert log.start_offset == 0
    assert pair.two.content() == pair.one.content()
    assert "lost offsets 0 to 3; copying them from the leader" in caplog.text


async def test_a_leader_without_its_first_segments_says_so_and_goes_on(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    await pair.produced(pair.one, batch(2))
    log = pair.one.replica.log
    assert log is not None
    log.state.start_offset, log.state.lost_from = 1, 0

    pair.apply(change(leader=1, isr=(1,)))

    assert log.state.lost_from is None
    assert "is missing offsets 0 to 0, which its disk lost" in caplog.text
    assert (await pair.produced(pair.one, batch())).base_offset == 2
