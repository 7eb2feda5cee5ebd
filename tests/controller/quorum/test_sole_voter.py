from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from controller.quorum.log_thread import LogThread
from controller.quorum.raft_files import RaftFiles, election_state
from controller.quorum.raft_log import QuorumNodeSettings, RaftLog
from controller.quorum.replicated_log import NewBatch, NotLeaderError
from jbodlab.metadata.log.batches import (
    MAX_BATCH_BYTES,
    BatchTooLargeError,
    control_batch,
    read_batches,
)
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.quorum_state import (
    FILE_NAME,
    QuorumState,
    decode_quorum_state,
    read_quorum_state,
)
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.control_records import KRaftVotersRecord
from jbodlab.raft.messages import RaiseKRaftVersionRequest
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.voters import ReplicaKey
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.errors import FormatError, KafkaError, LogDirError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.controller.quorum.nodes import directory_of, voters
from tests.controller.shell import NoPeers

NO_OP = frame.encode(NoOpRecord(), 0)


def batch(base_offset: int, value: bytes = NO_OP) -> NewBatch:
    return NewBatch(base_offset=Offset(base_offset), records=[(None, value)], timestamp_ms=1)


class Quorum:
    """A quorum of one voter, whose syncs can be held up."""

    def __init__(self, directory: Path) -> None:
        self.files = MetadataLog.open(directory)
        self.thread = LogThread(system_environment().threads)
        self.hold, self.flush = asyncio.Event(), self.files.flush
        self.hold.set()
        loop = asyncio.get_running_loop()

        def slow_flush() -> None:
            asyncio.run_coroutine_threadsafe(self.hold.wait(), loop).result(10)
            self.flush()

        self.files.flush = slow_flush  # type: ignore[method-assign]
        self.log = RaftLog(
            settings=QuorumNodeSettings(
                me=ReplicaKey(BrokerId(1), directory_of(1)),
                endpoints=(),
                voters=voters(1),
                bootstrap_servers=0,
                stored=election_state(read_quorum_state(self.files.directory)),
                timing=RaftSettings(),
            ),
            files=RaftFiles(self.files),
            log_thread=self.thread,
            peers=NoPeers(),
            high_watermark=Offset(self.files.end_offset),
            on_snapshot=lambda _: None,
            now_ms=system_environment().monotonic_ms,
            wall_ms=lambda: 1,
            random=lambda: 0.5,
        )

        self.roles: list[tuple[str, int]] = []
        self.led = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    def on_leader(self, epoch: LeaderEpoch) -> None:
        self.roles.append(("leader", epoch))
        self.led.set()

    def on_controls(self, end_offset: Offset) -> None:
        pass

    def on_elected(self, epoch: LeaderEpoch) -> None:
        self.roles.append(("elected", epoch))

    def on_follower(self, epoch: LeaderEpoch, leader: BrokerId | None) -> None:
        assert leader is None
        self.roles.append(("follower", epoch))

    async def elected(self) -> LeaderEpoch:
        """Wait until this node leads; returns the epoch."""
        if self.running is None:
            self.running = asyncio.create_task(self.log.run(self))
        async with asyncio.timeout(10):
            await self.led.wait()
        self.led.clear()
        return LeaderEpoch(self.roles[-1][1])

    async def close(self) -> None:
        self.hold.set()
        if self.running is not None:
            self.running.cancel()
        await self.thread.run(self.files.close)
        self.thread.stop()


async def test_batches_are_committed_in_order_when_they_are_synced(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    epoch = await it.elected()
    assert (epoch, it.log.high_watermark) == (1, 1)
    it.hold.clear()
    first = it.log.append(epoch, [batch(1), batch(2)])
    second = it.log.append(epoch, [batch(3)])
    await asyncio.wait([first, second], timeout=0.05)
    assert (first.done(), second.done(), it.log.high_watermark) == (False, False, 1)
    it.hold.set()

    committed = await first
    assert [base_offset for base_offset, _ in committed.batches] == [1, 2]
    assert committed.end_offset == 3
    data = b"".join(data for _, data in committed.batches)
    assert [each.epoch for each in read_batches(data)] == [1, 1]
    assert it.files.read(1, len(data)) == data
    assert ((await second).end_offset, it.log.high_watermark) == (4, 4)
    await it.close()


async def test_an_append_in_flight_at_a_resignation_fails_and_is_committed_all_the_same(
    tmp_path: Path,
) -> None:
    it = Quorum(tmp_path)
    epoch = await it.elected()
    it.hold.clear()
    appending = it.log.append(epoch, [batch(1)])
    it.log.resign()
    with pytest.raises(NotLeaderError):
        await appending
    assert it.log.high_watermark == 1
    electing = asyncio.create_task(it.elected())
    it.hold.set()

    assert await electing == 2
    assert it.log.high_watermark == 3
    found = [(each.base_offset, each.epoch) for each in read_batches(it.files.read(0))]
    assert found == [(0, 1), (1, 1), (2, 2)]
    await it.close()


async def test_who_does_not_lead_in_the_epoch_appends_nothing(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    with pytest.raises(NotLeaderError):
        it.log.append(LeaderEpoch(0), [batch(0)])
    await it.elected()
    for epoch in (0, 2):
        with pytest.raises(NotLeaderError):
            it.log.append(LeaderEpoch(epoch), [batch(1)])
    it.log.resign()
    with pytest.raises(NotLeaderError):
        it.log.append(LeaderEpoch(1), [batch(1)])

    assert it.files.end_offset == 1
    await it.close()


async def test_a_batch_that_is_too_large_is_refused(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    epoch = await it.elected()
    with pytest.raises(BatchTooLargeError, match="1 records need 8388"):
        await it.log.append(epoch, [batch(1, bytes(MAX_BATCH_BYTES))])

    assert it.files.end_offset == it.log.high_watermark == 1
    await it.close()


async def test_the_sole_voter_tells_once_per_election_who_leads(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    committed: list[int] = []
    it.log.add_listener(SimpleNamespace(committed=lambda each: committed.append(each.end_offset)))
    it.log.resign()
    assert it.roles == []
    for epoch in (1, 2, 3):
        assert await it.elected() == epoch
        # Its LeaderChange record is committed by then.
        assert committed[-1] == it.log.high_watermark == epoch
        it.log.resign()

    led = [each for each in it.roles if each[0] == "leader"]
    assert led == [("leader", epoch) for epoch in (1, 2, 3)]
    # It ends with each resignation.
    assert all(
        ("follower", epoch) in it.roles[it.roles.index(("leader", epoch)) :] for epoch in (1, 2, 3)
    )
    await it.close()


async def test_who_resigns_before_the_election_is_committed_is_not_told_to_lead(
    tmp_path: Path,
) -> None:
    it = Quorum(tmp_path)
    it.hold.clear()
    electing = asyncio.create_task(it.elected())
    async with asyncio.timeout(10):
        while ("elected", 1) not in it.roles:
            assert not electing.done()
            await asyncio.sleep(0)
    it.log.resign()
    it.hold.set()

    assert await electing == 2
    assert ("leader", 1) not in it.roles
    await it.close()


async def test_listeners_are_told_of_commits_before_the_appends_end_also_when_nobody_leads(
    tmp_path: Path,
) -> None:
    it = Quorum(tmp_path)
    epoch = await it.elected()
    told: list[object] = []
    listener = SimpleNamespace(committed=lambda each: told.append(each.end_offset))
    it.log.add_listener(listener)
    await it.log.append(epoch, [batch(1)])
    assert told == [2]
    it.hold.clear()
    appending = it.log.append(epoch, [batch(2)])
    it.log.resign()
    with pytest.raises(NotLeaderError):
        await appending
    it.hold.set()
    await it.elected()

    # The append became committed with the first record of the next epoch.
    assert told == [2, 4]
    it.log.remove_listener(listener)
    await it.close()
    assert told == [2, 4]


async def test_appends_that_come_during_a_sync_share_the_next_one(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    epoch = await it.elected()
    flush, syncs = it.flush, []

    def counted() -> None:
        syncs.append(it.files.end_offset)
        flush()

    it.flush = counted
    it.hold.clear()
    appends = [it.log.append(epoch, [batch(offset)]) for offset in range(1, 5)]
    it.hold.set()

    assert [(await each).end_offset for each in appends] == [2, 3, 4, 5]
    assert syncs == [2, 5]
    await it.close()


async def test_what_waits_for_a_sync_at_a_resignation_is_in_the_log_of_its_epoch(
    tmp_path: Path,
) -> None:
    it = Quorum(tmp_path)
    epoch = await it.elected()
    it.hold.clear()
    appends = [it.log.append(epoch, [batch(offset)]) for offset in range(1, 4)]
    it.log.resign()
    it.hold.set()

    assert await it.elected() == 2
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert {type(each) for each in outcomes} == {NotLeaderError}
    found = [(each.base_offset, each.epoch) for each in read_batches(it.files.read(0))]
    assert found == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2)]
    await it.close()


async def test_a_sole_voter_writes_quorum_state_once_for_an_election(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    written: list[QuorumState] = []
    write = it.files.fs.write_atomically

    def noted(path: Path, data: bytes, **options: bool) -> None:
        if path.name == FILE_NAME:
            written.append(decode_quorum_state(data))
        write(path, data, **options)

    it.files.fs.write_atomically = noted  # type: ignore[method-assign]
    for epoch in (1, 2):
        await it.elected()
        assert written == [
            QuorumState(leader_id=1, leader_epoch=each, voters=(1,)) for each in range(1, epoch + 1)
        ]
        it.log.resign()
    await it.close()


async def test_a_sole_voter_is_sure_that_nobody_else_leads(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    epoch = await it.elected()

    assert it.log.confirm(epoch) is None
    with pytest.raises(NotLeaderError):
        it.log.confirm(LeaderEpoch(epoch + 1))
    await it.close()


async def test_a_controller_without_a_listener_for_others_adds_no_voter(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    await it.elected()
    with pytest.raises(KafkaError, match=r"controller\.listener\.names must name two"):
        await it.log.change_voters(RaiseKRaftVersionRequest(level=1))
    await it.close()


async def test_a_log_that_has_other_voters_is_not_led_alone(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    members = KRaftVotersRecord(voters=voters(1, 2, are_known=True).voters)
    it.files.begin_epoch(1)
    it.files.append(control_batch(members, base_offset=0, epoch=1, timestamp_ms=1))
    it.flush()

    with pytest.raises(FormatError, match=r"has the voters 1:.*, 2:.*must name two"):
        await it.log.run(it)
    assert it.roles == []
    await it.close()


async def test_who_waits_when_the_log_fails_is_told(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    epoch = await it.elected()
    flush = it.flush

    def broken() -> None:
        raise OSError(5, "Input/output error")

    it.flush = broken
    appending = it.log.append(epoch, [batch(1)])
    with pytest.raises(NotLeaderError):
        await appending

    assert it.roles[-1] == ("follower", 1)
    assert it.running is not None
    with pytest.raises(LogDirError, match="Input/output error"):
        await it.running
    it.flush = flush
    await it.close()


async def test_a_sole_voter_leads_on_until_its_process_has_ended(tmp_path: Path) -> None:
    it = Quorum(tmp_path)
    epoch = await it.elected()

    await it.log.leave()

    assert (await it.log.append(epoch, [batch(1)])).end_offset == 2
    await it.close()
