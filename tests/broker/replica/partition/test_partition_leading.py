from __future__ import annotations

import asyncio
import os
import threading

import pytest

from broker.bounds.limits import APPENDED_AT_ONCE, HEAD_START_S, SUCCESSION_WAIT_MAX_S
from broker.fetch.fetch_requests import OffsetQuery
from broker.replica.replica_state import Offline
from broker.replica.waiting.append_entries import AppendEntry, AppendResult, LeaderHint
from jbodlab.controller_api.requests import IsrChangeResult
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from tests.broker.replicas import (
    DEADLINE_S,
    TOPIC_ID,
    TP,
    batch,
    broker,
    change,
    config,
    directories_left,
    directory_id,
    partition_record,
    until,
)
from tests.broker.stage import D2, D3, THREE, TWO, Stage, appended, code
from tests.waiting import set_forward, turns


def code_of(future: asyncio.Future[list[AppendResult]]) -> ErrorCode:
    """Return what a request was answered; it must have been by now."""
    assert future.done()
    (result,) = future.result()
    return result.error_code


def refused(code: ErrorCode) -> IsrChangeResult:
    """Return the controller's answer to an ISR that it does not write."""
    return IsrChangeResult(topic_id=TOPIC_ID, partition=0, error_code=code)


async def test_acks_all_is_answered_when_the_whole_isr_has_the_record(cluster: Stage) -> None:
    future = await cluster.waiting()

    cluster.fetched(TWO, 1)
    assert not future.done()
    cluster.fetched(THREE, 1)

    assert code_of(future) is ErrorCode.NONE
    assert future.result()[0].base_offset == 0


async def test_acks_one_is_answered_when_the_leader_has_written(cluster: Stage) -> None:
    result = await cluster.host.produced(batch(3), acks=1)

    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 0)
    assert (await cluster.host.produced(batch(), acks=1)).base_offset == 3


async def test_offsets_follow_the_order_of_the_calls_before_anything_is_written(
    cluster: Stage,
) -> None:
    futures = [cluster.host.produce(batch(2), acks=1) for _ in range(20)]

    results = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)

    assert [each[0].base_offset for each in results] == list(range(0, 40, 2))


@pytest.mark.parametrize(
    "others",
    [
        pytest.param("none is in sync", marks=pytest.mark.stage(isr=(1,))),
        "none is alive",
        "no disk is",
    ],
)
async def test_produce_is_refused_the_moment_its_directory_fails_if_nobody_else_can_lead(
    cluster: Stage, others: str
) -> None:
    if others == "none is alive":
        cluster.apply(broker(2, D2, fenced=True), broker(3, D3, fenced=True))
    if others == "no disk is":
        cluster.apply(directories_left(2, directory_id(21)), directories_left(3, directory_id(31)))
    future = cluster.host.produce(batch(), acks=1)

    cluster.fail()

    assert code_of(future) is ErrorCode.KAFKA_STORAGE_ERROR
    later = cluster.host.produce(batch())
    assert code_of(later) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_produce_waits_for_the_next_leader_when_its_directory_fails(cluster: Stage) -> None:
    before = await cluster.waiting()
    cluster.fail()
    after = cluster.host.produce(batch())
    await turns()
    assert not before.done()
    assert not after.done()

    cluster.apply(change(leader=2, isr=(2, 3)))

    for future in (before, after):
        result = await appended(future)
        assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert result.leader_hint == LeaderHint(leader=TWO, leader_epoch=LeaderEpoch(1))
    later = cluster.host.produce(batch())
    assert code_of(later) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_produce_waits_for_the_next_leader_as_long_as_its_own_time_lasts(
    cluster: Stage,
) -> None:
    before = await cluster.waiting()
    cluster.fail()
    after = cluster.host.produce(batch(), timeout_ms=60_000)
    queries = [OffsetQuery(topic_partition=TP, timestamp=-1)]
    asked = asyncio.ensure_future(
        cluster.host.manager.offsets.list_offsets(queries, BrokerId(-1), 0)
    )
    await turns()

    set_forward(SUCCESSION_WAIT_MAX_S)
    (answer,) = await asyncio.wait_for(asked, DEADLINE_S)
    assert answer.error_code is ErrorCode.KAFKA_STORAGE_ERROR, "it names no time"
    assert not before.done()
    # The controller has not heard of the failure yet.
    cluster.apply(change(leader=1, isr=(1, 2, 3)))
    set_forward(29.0)
    await turns()

    assert code_of(before) is ErrorCode.REQUEST_TIMED_OUT
    assert not after.done()
    cluster.apply(change(leader=2, isr=(2, 3)))
    result = await appended(after)
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_many_batches_of_a_request_are_appended_in_order_and_others_in_between(
    cluster: Stage,
) -> None:
    count = 2 * APPENDED_AT_ONCE + 1
    append = cluster.host.manager.appends.append
    many = append([AppendEntry(topic_partition=TP, records=batch())] * count, 1, 30_000)

    # Of the same connection, it may be, so that it must not overtake.
    behind = append([AppendEntry(topic_partition=TP, records=batch())], 1, 30_000)
    elsewhere = TopicPartition("elsewhere", 0)
    others = append([AppendEntry(topic_partition=elsewhere, records=batch())], 1, 30_000)

    assert others.done(), "nothing for its partition is deferred"
    assert not behind.done()
    offsets = [each.base_offset for each in await asyncio.wait_for(many, DEADLINE_S)]
    assert offsets == list(range(count))
    assert [each.base_offset for each in await asyncio.wait_for(behind, DEADLINE_S)] == [count]
    last = append([AppendEntry(topic_partition=TP, records=batch())], 1, 30_000)
    assert [each.base_offset for each in await asyncio.wait_for(last, DEADLINE_S)] == [count + 1]


async def test_next_leader_is_named_a_moment_later_than_the_metadata_name_it(
    cluster: Stage,
) -> None:
    """It has to hear of its leadership too, before clients come."""

    future = await cluster.waiting()
    cluster.fail()

    cluster.apply(change(leader=2, isr=(2, 3)))
    await turns()
    assert not future.done()
    set_forward(HEAD_START_S)
    await turns()

    assert code_of(future) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_nobody_waits_for_the_next_leader_of_a_deleted_topic(cluster: Stage) -> None:
    future = await cluster.waiting()
    cluster.fail()

    cluster.apply(RemoveTopicRecord(topic_id=TOPIC_ID))

    assert code_of(future) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_leaderless_metadata_end_the_wait_for_a_next_leader(cluster: Stage) -> None:
    future = await cluster.waiting()
    cluster.fail()

    cluster.apply(change(leader=-1, isr=(1,)))

    result = await appended(future)
    assert result.error_code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_followers_dead_disk_does_not_hold_back_the_high_watermark(cluster: Stage) -> None:
    """The follower is caught up a moment ago; its directory goes offline, its broker lives on."""

    cluster.fetched(TWO, 0)
    cluster.fetched(THREE, 0)
    future = await cluster.waiting()
    cluster.fetched(TWO, 1)
    assert not future.done()

    cluster.apply(change(isr=(1, 2)), directories_left(3, directory_id(31)))

    assert code_of(future) is ErrorCode.NONE


@pytest.mark.stage(isr=(1, 2))
async def test_caught_up_follower_outside_the_isr_holds_back_until_its_directory_fails(
    cluster: Stage,
) -> None:
    cluster.fetched(TWO, 0)
    cluster.fetched(THREE, 0)
    partition = cluster.partition
    partition.in_sync.answered(0, refused(ErrorCode.OPERATION_NOT_ATTEMPTED))
    future = await cluster.waiting()
    cluster.fetched(TWO, 1)
    assert not future.done()

    cluster.apply(directories_left(3, directory_id(31)))

    assert code_of(future) is ErrorCode.NONE


@pytest.mark.stage(isr=(1, 2))
async def test_caught_up_follower_that_may_not_join_holds_back_nothing_until_it_fetches_again(
    cluster: Stage,
) -> None:
    """One whose directory is FULL again has stopped to fetch, and the controller refuses it."""

    cluster.fetched(TWO, 0)
    cluster.fetched(THREE, 0)
    future = await cluster.waiting()
    cluster.fetched(TWO, 1)
    assert not future.done()

    partition = cluster.partition
    partition.in_sync.answered(0, refused(ErrorCode.INELIGIBLE_REPLICA))

    assert code_of(future) is ErrorCode.NONE
    cluster.fetched(THREE, 1)
    assert cluster.leading.proposed_isr == (1, 2, 3)


async def test_waiting_produce_is_answered_when_the_isr_gets_too_small(cluster: Stage) -> None:
    future = await cluster.waiting()

    cluster.apply(change(isr=(1,)))

    assert code_of(future) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    refused = await cluster.host.produced(batch())
    assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_what_is_sent_behind_a_batch_that_the_isr_was_too_small_for_is_not_out_of_order(
    cluster: Stage,
) -> None:
    def sent(sequence: int) -> asyncio.Future[list[AppendResult]]:
        return cluster.host.produce(batch(producer_id=9, sequence=sequence), acks=-1)

    written = sent(0)
    cluster.apply(change(isr=(1,)))
    refused = sent(1)
    cluster.apply(change(isr=(1, 2)))
    behind = sent(2)

    codes = [(await each)[0].error_code for each in (written, refused, behind)]

    assert codes == [
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    ]


async def test_high_watermark_stands_while_the_isr_is_too_small(cluster: Stage) -> None:
    cluster.apply(change(isr=(1,)))
    assert (await cluster.host.produced(batch(), acks=1)).error_code is ErrorCode.NONE
    partition = cluster.partition
    assert partition.high_watermark == 0

    cluster.apply(config("min.insync.replicas", "1"))

    assert partition.high_watermark == 1


async def test_waiting_produce_is_answered_with_the_new_leader(cluster: Stage) -> None:
    future = await cluster.waiting()

    cluster.apply(change(leader=2))

    assert code_of(future) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    hint = future.result()[0].leader_hint
    assert hint is not None
    assert (hint.leader, hint.leader_epoch) == (2, 1)


async def test_leader_that_stays_goes_on_with_what_waits_in_its_new_epoch(cluster: Stage) -> None:
    future = await cluster.waiting()

    cluster.apply(change(leader=1))
    partition = cluster.partition
    assert partition.registration.leader_epoch == 1
    assert not future.done()
    for follower in (TWO, THREE):
        cluster.fetched(follower, 1)

    assert code_of(future) is ErrorCode.NONE
    assert cluster.end == 1


async def test_leader_that_stays_knows_in_its_new_epoch_what_it_has_refused(cluster: Stage) -> None:
    def sent(sequence: int) -> asyncio.Future[list[AppendResult]]:
        return cluster.host.produce(batch(producer_id=9, sequence=sequence), acks=-1)

    sent(0)
    cluster.apply(change(isr=(1,)))
    refused = sent(1)
    cluster.apply(change(leader=1, isr=(1, 2)))
    behind = sent(2)

    codes = [(await each)[0].error_code for each in (refused, behind)]

    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2


@pytest.mark.parametrize("leader", [2, -1])
@pytest.mark.stage(isr=(1,), min_insync_replicas="1")
async def test_what_is_appended_when_the_leadership_is_lost_is_written_and_then_answered(
    cluster: Stage, leader: int
) -> None:
    resume = threading.Event()
    cluster.host.dirs[0].run(lambda: resume.wait(DEADLINE_S))
    # Nobody but this leader is in the ISR: what it has written is committed.
    futures = [cluster.host.produce(batch(), acks=acks) for acks in (1, -1)]

    cluster.apply(change(leader=leader))
    assert not any(future.done() for future in futures)
    resume.set()
    await cluster.written()

    assert [code_of(future) for future in futures] == [ErrorCode.NONE] * 2


@pytest.mark.stage(isr=(1,), min_insync_replicas="1")
async def test_what_the_new_leader_does_not_have_is_refused_when_it_is_cut(cluster: Stage) -> None:
    resume = threading.Event()
    cluster.host.dirs[0].run(lambda: resume.wait(DEADLINE_S))
    futures = [cluster.host.produce(batch(), acks=1) for _ in range(3)]
    cluster.apply(change(leader=2))
    partition = cluster.partition

    cutting = asyncio.ensure_future(cluster.log.truncate(1))
    await asyncio.sleep(0.01)
    resume.set()
    await cutting
    partition.truncated()
    await cluster.written()

    codes = [code_of(future) for future in futures]
    assert codes[0] is ErrorCode.NONE
    # They may have been written, and answered, before the cut.
    assert set(codes[1:]) <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_waiting_produce_of_a_deleted_topic_is_answered(cluster: Stage) -> None:
    future = await cluster.waiting()

    cluster.apply(RemoveTopicRecord(topic_id=TOPIC_ID))

    assert code_of(future) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await until(lambda: bool(cluster.host.removed))
    assert cluster.host.removed[0].name.endswith("-delete")


async def test_produce_times_out_and_leaves_nothing_behind(cluster: Stage) -> None:
    result = await cluster.host.produced(batch(), timeout_ms=20)

    assert result.error_code is ErrorCode.REQUEST_TIMED_OUT
    assert cluster.partition.waiters.count == 0


async def test_failing_write_answers_the_request_and_takes_the_directory_offline(
    cluster: Stage,
) -> None:
    partition = cluster.partition

    def fail(*_: object) -> None:
        raise OSError(5, os.strerror(5))

    cluster.log.files.carry_out = fail  # type: ignore[assignment]  # the disk, for once

    waiting = cluster.host.produce(batch(), acks=1)
    await until(lambda: not cluster.host.dirs[0].is_online)
    cluster.apply(change(leader=2, isr=(2, 3)))
    result = await appended(waiting)

    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert isinstance(partition.state, Offline)


async def test_repeated_batch_is_answered_with_its_first_offset(cluster: Stage) -> None:
    first = batch(2, producer_id=9, sequence=0)
    second = batch(2, producer_id=9, sequence=2)
    for records in (first, second):
        await cluster.host.produced(records, acks=1)

    again = await cluster.host.produced(first, acks=1)
    gap = await cluster.host.produced(batch(producer_id=9, sequence=8), acks=1)

    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    assert gap.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert cluster.end == 4


async def test_sequence_check_sees_batches_that_are_not_written_yet(cluster: Stage) -> None:
    futures = [
        cluster.host.produce(batch(producer_id=9, sequence=sequence), acks=1)
        for sequence in (0, 1, 1, 3, 2)
    ]

    results = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)

    assert [(r[0].error_code, r[0].base_offset) for r in results] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 1),
        (ErrorCode.NONE, 1),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (ErrorCode.NONE, 2),
    ]


async def test_repeated_batch_waits_for_followers_like_the_first(cluster: Stage) -> None:
    records = batch(producer_id=9, sequence=0)
    first = cluster.host.produce(records)
    again = cluster.host.produce(records)
    await cluster.written()
    assert not again.done()

    cluster.fetched(TWO, 1)
    cluster.fetched(THREE, 1)

    assert code_of(first) is code_of(again) is ErrorCode.NONE


@pytest.mark.stage(isr=(1, 2))
async def test_follower_outside_the_isr_is_proposed_once_it_has_everything(cluster: Stage) -> None:
    await cluster.host.produced(batch(), acks=1)
    cluster.fetched(TWO, 1)

    cluster.fetched(THREE, 0)
    assert cluster.host.proposals.proposed == []
    cluster.fetched(THREE, 1)
    cluster.fetched(THREE, 1)

    assert cluster.host.proposals.proposed == [(1, 2, 3)]


@pytest.mark.stage(isr=(1, 2))
async def test_follower_in_an_offline_directory_is_not_proposed(cluster: Stage) -> None:
    cluster.apply(directories_left(3, directory_id(31)))

    cluster.fetched(THREE, 0)

    assert cluster.host.proposals.proposed == []


@pytest.mark.stage(isr=(1, 2))
async def test_member_in_an_offline_directory_is_proposed_to_leave_at_once(cluster: Stage) -> None:
    """The controller does not look at directories when it accepts a new member."""

    cluster.apply(directories_left(3, directory_id(31)))

    cluster.apply(change(isr=(1, 2, 3)))

    assert cluster.host.proposals.proposed == [(1, 2)]


@pytest.mark.stage(isr=(1, 2))
async def test_high_watermark_waits_for_a_member_that_is_only_proposed(cluster: Stage) -> None:
    partition = cluster.partition
    cluster.fetched(TWO, 0)
    cluster.fetched(THREE, 0)
    await cluster.host.produced(batch(), acks=1)
    cluster.fetched(TWO, 1)
    assert partition.high_watermark == 0
    answer = IsrChangeResult(
        topic_id=TOPIC_ID,
        partition=0,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        isr=(BrokerId(1), TWO, THREE),
        partition_epoch=PartitionEpoch(1),
    )

    assert not partition.in_sync.answered(0, answer)

    assert cluster.leading.isr == (1, 2, 3)
    cluster.fetched(THREE, 1)
    assert partition.high_watermark == 1


@pytest.mark.stage(isr=(1, 2))
async def test_refused_proposal_is_given_up_and_an_unknown_error_asks_again(cluster: Stage) -> None:
    partition = cluster.partition
    cluster.fetched(THREE, 0)

    assert partition.in_sync.answered(0, refused(ErrorCode.NOT_CONTROLLER))
    assert cluster.leading.proposed_isr == (1, 2, 3)
    assert not partition.in_sync.answered(0, refused(ErrorCode.INELIGIBLE_REPLICA))

    assert cluster.leading.proposed_isr is None


async def test_batch_before_its_log_exists_waits_for_it(stage: Stage) -> None:
    stage.describe(partitions=0)
    stage.apply(partition_record((1,), (UNASSIGNED,)))

    future = stage.host.produce(batch())
    assert not future.done()

    assert await code(future) is ErrorCode.NONE
    assert stage.host.assignments.assigned == [(TOPIC_ID, 0, stage.place(1))]


async def test_one_who_cannot_hear_of_an_append_keeps_no_other_waiting(
    cluster: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    host = cluster.host
    second = TP._replace(partition=1)
    cluster.apply(
        partition_record((1,), (host.directory(0),), index=1),
    )
    first = await host.online()
    await host.online(second)
    assert first.log is not None

    def broken() -> None:
        raise ZeroDivisionError

    first.log.on_written = broken
    # In one turn of the loop: both are in one write.
    host.produce(batch(), acks=1)
    result = await asyncio.wait_for(
        host.produce(batch(), acks=1, topic_partition=second), DEADLINE_S
    )

    assert result[0].error_code is ErrorCode.NONE
    assert "ZeroDivisionError" in caplog.text


async def test_one_who_cannot_hear_of_a_role_keeps_no_other_waiting(
    cluster: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    partition = cluster.partition
    heard: list[int] = []

    def broken() -> None:
        raise ZeroDivisionError

    partition.waiters.when_ready(broken)
    partition.waiters.when_ready(lambda: heard.append(1))
    partition.waiters.ready()

    assert heard == [1]
    assert "ZeroDivisionError" in caplog.text
