from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from controller.decide.brokers.brokers import heartbeat, late_heartbeat
from controller.decide.brokers.registration import register_broker
from controller.decide.state import ControllerResult, ControllerState
from controller.lead.metadata_stream import MetadataStream
from controller.limits import QUEUED_BYTES_MAX, QUEUED_OPERATIONS_MAX, STREAM_KEEP_ALIVE_S
from controller.quorum.replicated_log import Committed, NotLeaderError
from jbodlab.controller_api.requests import (
    BrokerHeartbeatRequest,
    CreateTopicsRequest,
    MetadataStreamRequest,
    MetadataStreamResponse,
    Mutator,
    UpdateFeaturesResponse,
)
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.snapshots import read_snapshot
from jbodlab.metadata.records.config_records import (
    BeginTransactionRecord,
    ClientQuotaRecord,
    EndTransactionRecord,
    NoOpRecord,
    QuotaEntity,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError, LogDirError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset, TopicId
from tests.builders import CLUSTER_ID, PureController
from tests.controller.formatted import format_dir
from tests.controller.shell import Shell, SlowFlush, replayed, shell
from tests.metadata_batches import data_batch
from tests.snapshot_files import image_records, write_snapshot
from tests.waiting import turns

NO_OP = VersionedRecord(NoOpRecord(), 0)


def no_ops(count: int, *, atomic: bool = False) -> Callable[..., ControllerResult[int]]:
    def decide(state: ControllerState, now_ms: int) -> ControllerResult[int]:
        return ControllerResult(response=state.next_offset, records=(NO_OP,) * count, atomic=atomic)

    return decide


async def test_operations_see_what_the_ones_before_them_did_and_share_a_batch(it: Shell) -> None:
    start = it.log.end_offset
    answers = await asyncio.gather(*(it.controller.submit(no_ops(2)) for _ in range(5)))

    assert answers == [start + 2 * n for n in range(5)]
    (batch,) = read_batches(it.log.read(start))
    assert (batch.base_offset, batch.last_offset) == (start, start + 9)
    assert batch.epoch == 1
    assert it.committed.end_offset == start + 10


async def test_large_results_are_split_unless_they_are_atomic(it: Shell) -> None:
    start = it.log.end_offset
    await asyncio.gather(
        it.controller.submit(no_ops(25_000)),
        it.controller.submit(no_ops(9_000, atomic=True)),
        it.controller.submit(no_ops(1)),
    )

    batches = list(read_batches(it.log.read(start, 1 << 30)))
    assert [len(batch.records) for batch in batches] == [10_000, 10_000, 5_000, 9_001]


async def test_an_atomic_result_that_is_too_large_for_a_batch_is_a_transaction(it: Shell) -> None:
    start = it.log.end_offset
    await it.controller.submit(no_ops(25_000, atomic=True))

    batches = list(read_batches(it.log.read(start, 1 << 30)))
    assert [len(batch.records) for batch in batches] == [10_000, 10_000, 5_002]
    records = [item.record for batch in batches for _, item in batch.data_records]
    assert isinstance(records[0], BeginTransactionRecord)
    assert isinstance(records[-1], EndTransactionRecord)
    assert it.controller.state.next_offset == start + 25_002
    assert replayed(it).image == it.controller.state.image


async def test_without_transactions_a_large_atomic_result_is_refused(tmp_path: Path) -> None:
    async with shell(format_dir(tmp_path / "m", level=12)) as it:
        start = it.log.end_offset
        with pytest.raises(KafkaError) as refused:
            await it.controller.submit(no_ops(10_001, atomic=True))

        assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert it.controller.state.next_offset == start


async def test_a_response_names_the_offset_of_the_last_change(it: Shell) -> None:
    def deciding(count: int, *, atomic: bool = False) -> Any:
        result = ControllerResult(
            response=UpdateFeaturesResponse(), records=(NO_OP,) * count, atomic=atomic
        )
        return lambda _state, _now_ms: result

    before = it.log.end_offset
    assert (await it.controller.submit(deciding(2))).metadata_offset == before + 1
    assert (await it.controller.submit(deciding(0))).metadata_offset == -1
    # A transaction around them has a record at its end.
    before = it.log.end_offset
    changed = await it.controller.submit(deciding(10_001, atomic=True))
    assert changed.metadata_offset == it.log.end_offset - 1 == before + 10_002


async def test_what_was_appended_but_not_synced_is_never_sent(it: Shell) -> None:
    start = it.log.end_offset
    await it.controller.submit(no_ops(3))
    # As after a sync that failed: in the file, and nobody was told.
    end = it.committed.end_offset
    lost = data_batch([NO_OP, NO_OP], base_offset=end, epoch=1, timestamp_ms=1)
    await it.thread.run(partial(it.log.append, lost))
    fresh = MetadataStream(
        it.log, it.thread, Offset(end), BrokerId(100), LeaderEpoch(1), kraft_version=lambda: 1
    )

    response = await anext(fresh.subscribe(request(start, 1)))

    assert [batch.last_offset for batch in read_batches(response.records)] == [end - 1]
    assert response.kraft_version == 1


async def test_an_operation_that_fails_changes_nothing_and_stops_nobody(it: Shell) -> None:
    def broken(state: ControllerState, now_ms: int) -> ControllerResult[int]:
        raise ZeroDivisionError

    before = it.controller.state
    failed, answered = await asyncio.gather(
        it.controller.submit(broken),
        it.controller.submit(no_ops(0)),
        return_exceptions=True,
    )

    assert isinstance(failed, KafkaError)
    assert failed.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert answered == before.next_offset
    assert it.controller.state == before


async def test_what_waited_too_long_is_refused_or_done_differently(it: Shell) -> None:
    registration = PureController().registration(1, "A1")
    registered = await it.controller.submit(partial(register_broker, registration))
    request = BrokerHeartbeatRequest(
        broker_id=BrokerId(1),
        broker_epoch=registered.broker_epoch,
        current_metadata_offset=Offset(0),
    )
    answer = await it.controller.submit(
        partial(heartbeat, request),
        deadline_ms=-1,
        late=partial(late_heartbeat, request),
    )
    with pytest.raises(KafkaError) as refused:
        await it.controller.submit(no_ops(1), deadline_ms=-1)

    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT


async def test_nothing_is_answered_or_told_before_it_is_on_the_disk(it: Shell) -> None:
    slow = SlowFlush(it)
    end = it.committed.end_offset
    waiting = asyncio.create_task(it.controller.submit(no_ops(1)))
    await slow.begun.wait()
    await turns()
    assert not waiting.done()
    assert it.committed.end_offset == end
    slow.hold.set()
    await waiting
    slow.order.append("answered")

    assert slow.order == ["synced", "answered"]


def refused(state: ControllerState, now_ms: int) -> ControllerResult[int]:
    raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"seen at offset {state.next_offset}")


async def test_a_refusal_waits_for_what_it_was_decided_on(it: Shell) -> None:
    slow = SlowFlush(it)
    end = it.committed.end_offset
    calls = [asyncio.create_task(it.controller.submit(decide)) for decide in (no_ops(1), refused)]
    calls[1].add_done_callback(lambda _: slow.order.append("refused"))
    await slow.begun.wait()
    assert not calls[1].done()
    slow.hold.set()
    await asyncio.wait(calls)

    assert slow.order == ["synced", "refused"]
    with pytest.raises(KafkaError, match=f"seen at offset {end + 1}"):
        await calls[1]


async def test_a_result_that_cannot_be_replayed_changes_nothing_and_stops_nobody(it: Shell) -> None:
    def impossible(state: ControllerState, now_ms: int) -> ControllerResult[int]:
        unknown = RemoveTopicRecord(topic_id=TopicId(UUID(int=77)))
        return ControllerResult(
            response=1,
            records=(NO_OP, VersionedRecord(unknown, 0)),
            heartbeats=state.heartbeats.touched(BrokerId(1), Offset(1), now_ms),
        )

    before = it.controller.state
    first, failed, last = await asyncio.gather(
        it.controller.submit(no_ops(1)),
        it.controller.submit(impossible),
        it.controller.submit(no_ops(1)),
        return_exceptions=True,
    )

    assert isinstance(failed, KafkaError)
    assert failed.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (first, last) == (before.next_offset, before.next_offset + 1)
    assert it.controller.state.heartbeats == before.heartbeats
    assert it.controller.counts.failed == 1
    assert replayed(it).image == it.controller.state.image


@pytest.mark.parametrize(
    ("count", "size_bytes"), [(QUEUED_OPERATIONS_MAX, 0), (2, QUEUED_BYTES_MAX // 2)]
)
async def test_a_full_queue_refuses_all_but_heartbeats_and_what_the_controller_itself_wants(
    it: Shell, count: int, size_bytes: int
) -> None:
    def ask(**more: Any) -> asyncio.Task[int]:
        coming = it.controller.submit(no_ops(0), size_bytes=size_bytes, **more)
        return asyncio.create_task(coming)

    calls = [ask() for _ in range(count + 3)]
    urgent = [ask(late=no_ops(0)), ask(is_own=True), ask(late=no_ops(0))]
    answers = await asyncio.gather(*calls, *urgent, return_exceptions=True)

    start = it.controller.state.next_offset
    assert answers[:count] == [start] * count
    assert answers[count + 3 :] == [start] * 3
    for error in answers[count : count + 3]:
        assert isinstance(error, KafkaError)
        assert error.code == ErrorCode.REQUEST_TIMED_OUT
        assert error.message == "the controller's queue is full"
    assert it.controller.counts.refused == 3
    # There is room again, also for what is larger than everything the queue may hold.
    huge = it.controller.submit(no_ops(0), size_bytes=2 * QUEUED_BYTES_MAX)
    assert await huge == start


async def test_heartbeats_and_the_controllers_own_operations_run_in_order_before_all_others(
    it: Shell,
) -> None:
    seen: list[str] = []

    def noted(name: str) -> Any:
        def decide(state: ControllerState, now_ms: int) -> ControllerResult[None]:
            seen.append(name)
            return ControllerResult(response=None)

        return decide

    await asyncio.gather(
        it.controller.submit(noted("stranger 1")),
        it.controller.submit(noted("heartbeat 1"), late=noted("late")),
        it.controller.submit(noted("fence"), is_own=True),
        it.controller.submit(noted("stranger 2")),
        it.controller.submit(noted("heartbeat 2"), late=noted("late")),
    )

    assert seen == ["heartbeat 1", "fence", "heartbeat 2", "stranger 1", "stranger 2"]


async def test_a_long_queue_leaves_turns_to_others(
    it: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.lead.active_controller.ROUND_MS_MAX", 0)

    turns: list[int] = []

    async def count_turns() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    seen = []

    def decide(state: ControllerState, now_ms: int) -> ControllerResult[None]:
        seen.append(len(turns))
        return ControllerResult(response=None)

    await asyncio.gather(*(it.controller.submit(decide) for _ in range(20)))
    other.cancel()

    assert len(set(seen)) == 20


async def test_a_failed_append_ends_the_controller(it: Shell) -> None:
    def broken(data: bytes) -> None:
        raise OSError(5, "Input/output error")

    it.log.append = broken  # type: ignore[method-assign,assignment]
    waiting = asyncio.create_task(it.controller.submit(no_ops(1)))
    with pytest.raises(LogDirError, match="Input/output error"):
        await it.running

    with pytest.raises(NotLeaderError):
        await waiting


async def test_the_log_replays_to_the_state_of_the_controller(it: Shell) -> None:
    for broker, dirs in ((1, "A1,A2"), (2, "B1")):
        registration = PureController().registration(broker, dirs)
        await it.controller.submit(partial(register_broker, registration))
    assert replayed(it).image == it.controller.state.image


def request(offset: int, epoch: int = -1, crc: int | None = None) -> MetadataStreamRequest:
    return MetadataStreamRequest(
        broker_id=BrokerId(1),
        cluster_id=CLUSTER_ID,
        fetch_offset=Offset(offset),
        last_fetched_epoch=LeaderEpoch(epoch),
        last_fetched_crc=crc,
    )


async def read_to(it: Shell, subscription: AsyncIterator[MetadataStreamResponse]) -> list[int]:
    """Return the base offsets of all batches up to the committed end."""
    found: list[int] = []
    end = 0
    while end < it.committed.end_offset:
        response = await anext(subscription)
        for batch in read_batches(response.records):
            found.append(batch.base_offset)
            end = batch.last_offset + 1
    return found


async def test_a_stream_sends_the_backlog_and_then_what_is_committed(it: Shell) -> None:
    subscription = it.stream.subscribe(request(0))
    backlog = await read_to(it, subscription)
    coming = asyncio.ensure_future(anext(subscription))
    start = await it.controller.submit(no_ops(3))
    response = await coming

    assert backlog == [0, 1, 4]
    (batch,) = read_batches(response.records)
    assert (batch.base_offset, batch.last_offset) == (start, start + 2)
    assert response.high_watermark == start + 3


async def test_pieces_are_bounded_whether_from_memory_or_from_the_log(
    it: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.lead.metadata_stream.STREAM_PIECE_BYTES", 300)
    monkeypatch.setattr("controller.lead.metadata_stream.RECENT_BYTES_MAX", 1_000)

    for _ in range(30):
        await it.controller.submit(no_ops(2))
    subscription = it.stream.subscribe(request(0))
    offset, sizes = 0, []
    while offset < it.committed.end_offset:
        response = await anext(subscription)
        for batch in read_batches(response.records):
            assert batch.base_offset == offset
            offset = batch.last_offset + 1
        sizes.append(len(response.records))

    # The registration of the controller is a batch of its own size.
    assert max(sizes) <= 300
    assert len(sizes) > 5


async def test_a_silent_log_is_confirmed(it: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert STREAM_KEEP_ALIVE_S == 1.0
    monkeypatch.setattr("controller.lead.metadata_stream.STREAM_KEEP_ALIVE_S", 0.01)

    end = it.committed.end_offset
    response = await anext(it.stream.subscribe(request(end, 1)))

    assert response == MetadataStreamResponse(
        high_watermark=end, leader_id=BrokerId(100), leader_epoch=LeaderEpoch(1)
    )


async def test_a_broker_ahead_of_a_new_leaders_high_watermark_waits_for_what_follows(
    it: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.lead.metadata_stream.STREAM_KEEP_ALIVE_S", 0.01)
    known = it.committed.end_offset
    await it.controller.submit(no_ops(3))
    end = it.committed.end_offset
    of_new_leader = MetadataStream(
        it.log, it.thread, Offset(known), BrokerId(101), LeaderEpoch(2), kraft_version=lambda: 1
    )

    stream = of_new_leader.subscribe(request(end, 1))
    waits = await anext(stream)
    of_the_former = [(Offset(known), it.log.read(Offset(known)))]
    of_new_leader.committed(Committed(batches=of_the_former, end_offset=Offset(end)))
    still_waits = await anext(stream)
    following = data_batch([NO_OP], base_offset=end, epoch=2, timestamp_ms=1)
    batches = [(Offset(end), following)]
    of_new_leader.committed(Committed(batches=batches, end_offset=Offset(end + 1)))
    while not (goes_on := await anext(stream)).records:
        pass

    told = [each.diverging_end_offset for each in (waits, still_waits, goes_on)]
    assert told == [None, None, None]
    assert [each.high_watermark for each in (waits, still_waits)] == [known, end]
    assert (waits.records, still_waits.records, goes_on.records) == (b"", b"", following)


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (99, -1, 0),  # beyond the end without any epoch
        (99, 2, 7),  # more of the present epoch than there is
        (6, 1, 5),  # more of the epoch before than there was
        (5, 9, 0),  # an epoch that never was
    ],
)
async def test_a_log_that_has_parted_is_told_where_to_cut(
    directory: Path, offset: int, epoch: int, expected: int
) -> None:
    async with shell(directory) as it:
        assert it.log.end_offset == 5
    async with shell(directory) as it:
        assert it.log.end_offset == 7
        responses = [each async for each in it.stream.subscribe(request(offset, epoch))]

        assert [each.diverging_end_offset for each in responses] == [expected]


async def test_a_log_with_the_same_offsets_but_other_batches_is_another_one(it: Shell) -> None:
    start = await it.controller.submit(no_ops(1))
    end = await it.controller.submit(no_ops(1))
    await it.controller.submit(no_ops(1))
    (crc, *_) = (batch.crc for batch in read_batches(it.log.read(start)))

    async def first(wanted: MetadataStreamRequest) -> MetadataStreamResponse:
        return await anext(it.stream.subscribe(wanted))

    other = await first(request(end, 1, crc ^ 1))
    assert other.diverging_end_offset == 0
    for same in (request(end, 1, crc), request(end, 1), request(0, -1, crc)):
        assert (await first(same)).records


async def test_who_is_too_far_behind_gets_the_snapshot_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.lead.metadata_stream.STREAM_PIECE_BYTES", 100)
    directory = format_dir(tmp_path / "m")

    async with shell(directory) as it:
        image = it.controller.state.image
        write_snapshot(it.log.directory, image_records(image), 500, 1, 7)
    async with shell(directory) as it:
        subscription = it.stream.subscribe(request(3, 1))
        pieces = []
        while not pieces or not pieces[-1].last:
            piece = (await anext(subscription)).snapshot
            assert piece is not None
            pieces.append(piece)
        response = await anext(subscription)

        path = tmp_path / "00000000000000000500-0000000001.checkpoint"
        path.write_bytes(b"".join(piece.content for piece in pieces))
        assert read_snapshot(path).end_offset == 500
        assert len(pieces) > 1
        assert next(read_batches(response.records)).base_offset == 500


async def test_what_clients_have_used_of_their_quotas_is_kept_and_how_much_they_may_is_configured(
    tmp_path: Path,
) -> None:
    request = CreateTopicsRequest(topics=(), mutator=Mutator(client_id="c", is_strict=True))

    def change(state: ControllerState, now_ms: int) -> ControllerResult[None]:
        mutations = state.mutations_of(request, now_ms)
        mutations.take(20)
        return ControllerResult(response=None, mutations=mutations.used)

    limit = ClientQuotaRecord(
        entity=(QuotaEntity(entity_type="client-id", entity_name="c"),),
        key="controller_mutation_rate",
        value=0.001,
        remove=False,
    )

    windows = {
        "controller_quota_window_num": "10000",
        "controller_quota_window_size_seconds": "3",
    }
    async with shell(format_dir(tmp_path / "m"), **windows) as it:
        await it.controller.submit(
            lambda state, now_ms: ControllerResult(
                response=None, records=(VersionedRecord(limit, 0),)
            )
        )
        await it.controller.submit(change)
        # 30 are allowed at once: the next goes into debt, and the one behind it is refused.
        await it.controller.submit(change)
        with pytest.raises(KafkaError, match="controller_mutation_rate"):
            await it.controller.submit(change)
