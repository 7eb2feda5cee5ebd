"""Opening, leading, resigning and leading again, in one process."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from controller.decide.brokers.registration import register_broker
from controller.decide.state import ControllerResult, ControllerState
from controller.lead.active_controller import ActiveController
from controller.lead.committed_state import CommittedState
from controller.lead.leadership import Leadership
from controller.lead.snapshotter import ControllerSnapshotter
from controller.metadata_dir import open_metadata_dir
from controller.metrics import ControllerMetrics
from controller.quorum.log_thread import LogThread
from controller.quorum.replicated_log import Committed, NotLeaderError
from controller.serve.service import ControllerService
from jbodlab.controller_api import messages as pb
from jbodlab.controller_api.requests import MetadataStreamRequest
from jbodlab.controller_api.translate import from_proto
from jbodlab.controller_api.transport import Refusal, RpcRefusedError
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.quorum_state import read_quorum_state
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshots import parse_name, snapshot_bytes, snapshot_paths
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError, LogDirError
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, LeaderEpoch, Offset, TopicId
from tests.builders import CLUSTER_ID, PureController
from tests.controller.formatted import NODE_ID, config_of, format_dir
from tests.controller.lead.snapshots import SETTINGS, snapshotting
from tests.controller.scripted_log import ScriptedLog
from tests.controller.shell import Shell, SlowFlush, led, replayed
from tests.snapshot_files import image_records
from tests.waiting import turns

WRITTEN_MS = 5_000


def new_topic(number: int, copies: int = 1) -> Any:
    """Return the decision to create some topics at once; its answer is the number."""

    def decide(state: ControllerState, now_ms: int) -> ControllerResult[int]:
        records = tuple(
            VersionedRecord(
                TopicRecord(
                    name=f"t{number}-{copy}", topic_id=TopicId(UUID(int=number * 100 + copy + 1))
                ),
                0,
            )
            for copy in range(copies)
        )
        return ControllerResult(response=number, records=records, atomic=True)

    return decide


class Roles:
    """A leadership on a log of the test."""

    def __init__(self, directory: Path) -> None:
        config, environment = config_of(directory), system_environment()
        self.opened = open_metadata_dir(config)
        self.thread = LogThread(environment.threads)
        self.log = ScriptedLog(lambda: self.leadership)
        self.committed = CommittedState(self.opened.loader)
        self.log.add_listener(self.committed)
        self.terms: list[int] = []
        self.leadership = Leadership(
            config=config,
            incarnation_id=UUID(int=1),
            opened=self.opened,
            log_thread=self.thread,
            log=self.log,
            committed=self.committed,
            environment=environment,
            start_periodic=self._begun,
        )
        self.running = asyncio.create_task(self.leadership.run())

    def _begun(self, controller: ActiveController) -> list[asyncio.Task[None]]:
        assert controller.epoch == self.log.epoch
        assert len(self.log.listeners) == 2, "the stream of one term only"
        self.terms.append(controller.epoch)
        return []

    async def until_appended_or_active(self) -> None:
        async with asyncio.timeout(10):
            while not (self.log.waiting or self.leadership.is_active):
                assert not self.running.done()
                await asyncio.sleep(0.001)

    async def until_active(self) -> None:
        await self.until_appended_or_active()
        while not self.leadership.is_active:
            self.log.commit()
            await turns()
            await self.until_appended_or_active()

    async def close(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        await self.thread.run(self.opened.log.close)
        self.thread.stop()
        self.opened.lock.close()


def fails(state: ControllerState, now_ms: int) -> ControllerResult[None]:
    raise ValueError("nobody thought of this")


async def test_a_controller_whose_operations_fail_unexpectedly_hands_over_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Roles(format_dir(tmp_path / "m"))
    times = iter([0, 10_001, 10_002, 10_003, *[10_004] * 9])
    it.log.lead(1)
    await it.until_active()
    monkeypatch.setattr(it.leadership, "_now_ms", lambda: next(times))
    resigned: list[None] = []
    monkeypatch.setattr(it.leadership, "resign", lambda: resigned.append(None))
    controller = it.leadership.term.controller

    for number in range(12):
        with pytest.raises(KafkaError):
            await controller.submit(fails)
        await turns()
        # The first failure was too long ago when the third one came.
        assert len(resigned) == (number >= 3)
    monkeypatch.undo()
    await it.close()


@pytest.mark.parametrize("steps", range(6))
async def test_no_term_begins_in_an_epoch_that_is_over(tmp_path: Path, steps: int) -> None:
    """Another epoch comes at any moment of a begin."""
    it = Roles(format_dir(tmp_path / "m"))
    it.log.lead(1)
    if steps == 1:
        await asyncio.sleep(0)
    for _ in range(steps - 1):
        await it.until_appended_or_active()
        if it.log.waiting:
            it.log.commit()
    begun = [1] * it.leadership.is_active
    it.log.follow(2, leader=3)

    assert not it.leadership.is_active
    assert it.leadership.is_settled.is_set()
    with pytest.raises(NotLeaderError):
        _ = it.leadership.term
    await turns()
    it.log.lead(3)
    await it.until_active()
    assert it.terms == [*begun, 3]
    assert it.leadership.term.controller.epoch == 3
    submitted = asyncio.create_task(it.leadership.term.controller.submit(new_topic(1)))
    await it.until_appended_or_active()
    await turns()
    it.log.follow(4)
    it.log.lead(5)
    with pytest.raises(NotLeaderError):
        await submitted
    await it.until_active()
    assert it.terms == [*begun, 3, 5]
    await it.close()


def snapshotter_of(it: Roles) -> ControllerSnapshotter:
    """Return one that writes a snapshot after each commit."""
    return ControllerSnapshotter(
        committed=it.committed,
        log=it.opened.log,
        log_thread=it.thread,
        settings=MetadataLogSettings(bytes_between_snapshots=1),
        appended_bytes=0,
        threads=system_environment().threads,
        monotonic_s=system_environment().monotonic_s,
        wall_ms=lambda: WRITTEN_MS,
        quorum=it.log,
    )


async def snapshot_behind(it: Roles, end_offset: int) -> bytes:
    """Wait for the snapshot that ends at an offset or behind it; returns its bytes."""
    async with asyncio.timeout(10):
        while True:
            for path in snapshot_paths(it.opened.log.directory):
                if parse_name(path.name)[0] >= end_offset:
                    return path.read_bytes()
            await asyncio.sleep(0.002)


def snapshot_of(image: MetadataImage) -> bytes:
    return snapshot_bytes(
        image_records(image),
        epoch=image.epoch,
        timestamp_ms=image.timestamp_ms,
        created_ms=WRITTEN_MS,
    )


async def test_a_snapshot_between_two_terms_is_as_one_of_a_term(tmp_path: Path) -> None:
    it = Roles(format_dir(tmp_path / "m"))
    it.log.lead(1)
    await it.until_active()
    snapshotter = snapshotter_of(it)
    it.log.add_listener(snapshotter)
    writing = asyncio.create_task(snapshotter.run())
    for number in (1, 2):
        submitted = asyncio.create_task(it.leadership.term.controller.submit(new_topic(number)))
        await it.until_appended_or_active()
        await turns()
        if number == 1:
            it.log.commit()
            await submitted
            end = it.committed.end_offset
            assert await snapshot_behind(it, end) == snapshot_of(it.committed.image)
    # The second topic is appended; the next leader has it, and commits it.
    (_, appended) = it.log.waiting[0]
    it.log.follow(2, leader=3)
    with pytest.raises(NotLeaderError):
        await submitted
    assert set(it.committed.image.topics.by_name) == {"t1-0"}
    for listener in tuple(it.log.listeners):
        listener.committed(appended)

    assert set(it.committed.image.topics.by_name) == {"t1-0", "t2-0"}
    assert not it.leadership.is_active
    between = await snapshot_behind(it, it.committed.end_offset)
    assert between == snapshot_of(it.committed.image)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await it.close()


async def test_who_never_leads_knows_what_is_committed_and_writes_snapshots(tmp_path: Path) -> None:
    leader = Shell(format_dir(tmp_path / "leader"))
    await leader.lead()
    data = leader.log.read(0)
    await leader.stop()
    it = Roles(format_dir(tmp_path / "m"))
    snapshotter = snapshotter_of(it)
    it.log.add_listener(snapshotter)
    writing = asyncio.create_task(snapshotter.run())
    it.log.follow(1, leader=2)
    headers = list(iterate_headers(data))
    batches = [(Offset(h.base_offset), data[at : at + h.size]) for at, h in headers]
    for listener in tuple(it.log.listeners):
        listener.committed(Committed(batches, Offset(headers[-1][1].next_offset)))

    assert not it.leadership.is_active
    assert it.committed.image == leader.image
    metrics = ControllerMetrics(it.leadership, it.committed, snapshotter.snapshots)
    values = {each.name: each.samples[0][2] for each in metrics() if each.samples}
    assert values["kafka_controller_KafkaController_LastCommittedRecordOffset"] == 4
    assert await snapshot_behind(it, it.committed.end_offset) == snapshot_of(leader.image)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await it.close()


def test_opening_replays_the_log_and_writes_no_record(directory: Path) -> None:
    with led(directory) as it:
        before = it.image
    folder = directory / "__cluster_metadata-0"
    written = {path.name: path.read_bytes() for path in folder.iterdir()}

    for _ in range(2):
        opened = open_metadata_dir(config_of(directory))
        opened.log.close()
        opened.lock.close()

        assert opened.loader.image == before
        assert opened.epoch == 1
        # The note of an orderly end is for the next opening only.
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == written


async def test_who_does_not_lead_refuses_and_shows_what_is_committed(tmp_path: Path) -> None:
    it = Shell(format_dir(tmp_path / "m"))
    service: Any = ControllerService(
        leadership=it.leadership,
        heartbeat_interval_ms=2_000,
        hold_ms=500,
        randomness=None,  # type: ignore[arg-type]
        new_id=lambda: UUID(int=1),
        monotonic_s=lambda: 0.0,
    )
    refused = []
    for call in (
        service.unary("ListPartitionReassignments", pb.ListPartitionReassignmentsRequest()),
        service.unary("BrokerHeartbeat", pb.BrokerHeartbeatRequest(broker_id=1, broker_epoch=1)),
        anext(service.stream("MetadataStream", pb.MetadataStreamRequest(cluster_id=CLUSTER_ID))),
    ):
        with pytest.raises(RpcRefusedError, match="NOT_CONTROLLER") as error:
            await call
        refused.append(error.value.refusal)

    assert refused == [Refusal.NOT_CONTROLLER] * 3
    assert not it.leadership.is_active
    assert (it.committed.end_offset, it.image.offset) == (0, -1)
    await it.close()


async def test_who_leads_and_what_is_committed_is_told_with_and_without_a_term(it: Shell) -> None:
    service: Any = ControllerService(
        leadership=it.leadership,
        heartbeat_interval_ms=2_000,
        hold_ms=500,
        randomness=None,  # type: ignore[arg-type]
        new_id=lambda: UUID(int=1),
        monotonic_s=lambda: 0.0,
    )

    async def told() -> tuple[int, int, int, int]:
        answer = from_proto(await service.unary("DescribeQuorum", pb.DescribeQuorumRequest()))
        return answer.error_code, answer.leader_id, answer.leader_epoch, answer.high_watermark

    await it.controller.submit(new_topic(1))
    end = it.committed.end_offset
    assert await told() == (ErrorCode.NONE, NODE_ID, 1, end)
    it.leadership.resign()
    assert await told() == (ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_LEADER, 1, end)
    await it.until_active()
    assert await told() == (ErrorCode.NONE, NODE_ID, 2, it.committed.end_offset)


async def test_after_a_resignation_the_sole_voter_leads_again_in_a_higher_epoch(it: Shell) -> None:
    for number in range(3):
        await it.controller.submit(new_topic(number))
    before, first = it.image, it.leadership.term
    it.leadership.resign()

    assert not it.leadership.is_active
    assert it.image == before
    await it.until_active()
    assert it.leadership.term is not first
    assert it.controller.epoch == 2
    assert it.controller.state.image.topics == before.topics
    state = read_quorum_state(it.log.directory)
    assert state is not None
    assert state.leader_epoch == 2
    with pytest.raises(NotLeaderError):
        await first.controller.submit(new_topic(9))
    assert await it.controller.submit(new_topic(4)) == 4
    assert replayed(it).image == it.image


async def test_what_waits_at_a_resignation_fails_and_is_applied_wholly_or_not_at_all(
    it: Shell,
) -> None:
    assert await it.controller.submit(new_topic(1)) == 1
    slow, committed = SlowFlush(it), it.image
    controller = it.controller
    in_flight = [asyncio.create_task(controller.submit(new_topic(n, 5))) for n in range(2, 5)]
    await slow.begun.wait()
    queued = [asyncio.create_task(controller.submit(new_topic(n, 5))) for n in range(5, 8)]
    await turns()
    assert set(controller.state.image.topics.by_name) > set(committed.topics.by_name)
    it.leadership.resign()

    # Nothing of what is not committed is left in sight.
    assert controller.state.image is committed
    assert it.image is committed
    outcomes = await asyncio.gather(*in_flight, *queued, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {NotLeaderError}
    slow.hold.set()
    await it.until_active()
    names = set(it.image.topics.by_name)
    # All that the log had taken has arrived there.
    expected = {"t1-0"} | {f"t{n}-{copy}" for n in range(2, 8) for copy in range(5)}
    assert names == expected
    assert it.controller.state.image == replayed(it).image
    assert await it.controller.submit(new_topic(8, 5)) == 8


async def test_nothing_that_was_answered_is_lost_by_resignations_under_load(it: Shell) -> None:
    answered: set[int] = set()
    unknown: set[int] = set()

    async def create(first: int) -> None:
        for number in range(first, first + 60):
            try:
                answered.add(await it.controller.submit(new_topic(number, 3)))
            except NotLeaderError:
                unknown.add(number)
                await it.until_active()

    load = [asyncio.create_task(create(100 * worker)) for worker in range(4)]
    for turn in range(5):
        least = 25 * turn
        await it.until(lambda least=least: len(answered) >= least)  # type: ignore[misc]
        it.leadership.resign()
        await it.until_active()
    await asyncio.gather(*load)

    assert it.controller.epoch == 6
    assert unknown
    names = set(it.image.topics.by_name)
    for number in answered | unknown:
        there = {f"t{number}-{copy}" in names for copy in range(3)}
        assert len(there) == 1
        assert there == {True} or number in unknown
    assert replayed(it).image == it.image


async def test_streams_end_with_the_term(it: Shell) -> None:
    request = MetadataStreamRequest(
        broker_id=BrokerId(1),
        cluster_id=CLUSTER_ID,
        fetch_offset=it.committed.end_offset,
        last_fetched_epoch=LeaderEpoch(1),
    )
    coming = asyncio.ensure_future(anext(it.stream.subscribe(request)))
    await asyncio.sleep(0.05)
    assert not coming.done()
    it.leadership.resign()
    with pytest.raises(NotLeaderError):
        await coming
    await it.until_active()
    response = await anext(it.stream.subscribe(request))

    # Records of the next term follow what the broker has.
    assert [batch.epoch for batch in read_batches(response.records)] == [2, 2]


async def test_a_write_that_fails_while_nobody_leads_ends_the_process(it: Shell) -> None:
    begun, hold = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def broken() -> None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(hold.wait(), loop).result(10)
        raise OSError(5, "Input/output error")

    flush, it.log.flush = it.log.flush, broken  # type: ignore[method-assign]
    waiting = asyncio.create_task(it.controller.submit(new_topic(1)))
    await begun.wait()
    it.leadership.resign()
    it.log.flush = flush  # type: ignore[method-assign]
    hold.set()

    with pytest.raises(LogDirError, match="Input/output error"):
        await it.running
    with pytest.raises(NotLeaderError):
        await waiting


async def test_counters_and_snapshots_outlive_a_term(tmp_path: Path) -> None:
    async with snapshotting(format_dir(tmp_path / "m"), SETTINGS) as it:
        leadership = it.shell.leadership
        metrics = ControllerMetrics(leadership, it.shell.committed, it.snapshotter.snapshots)

        def value(name: str) -> float:
            return next(each.samples[0][2] for each in metrics() if each.name.endswith(name))

        registration = PureController().registration(1, "A1")
        await it.shell.controller.submit(partial(register_broker, registration))
        started = value("OperationsStartedCount")
        leadership.resign()
        assert (value("ActiveControllerCount"), value("FencedBrokerCount")) == (0, 1)
        await it.shell.until_active()

        assert (value("ActiveControllerCount"), value("FencedBrokerCount")) == (1, 1)
        assert value("OperationsStartedCount") == started
        await it.settle()
