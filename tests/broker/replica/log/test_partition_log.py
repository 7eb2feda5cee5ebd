"""The one owner of a log: changes in order, and a cut that nothing can slip into."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.disk.calls.replica_files import ReplicaLostError
from broker.disk.directory.log_dir import LogDir
from broker.replica.log.directory_writer import DirectoryWriter
from broker.replica.log.partition_log import PartitionLog
from broker.replica.log.tail_cache import TailCacheBudget
from jbodlab.record_batch.record_batch import build_batch, iterate_headers, read_header
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log import checkpointed
from jbodlab.storage.log.instructions import WriteEpochs
from jbodlab.storage.log.leader_epochs import read_leader_epochs
from jbodlab.storage.log.loaded_log import LoadedLog, create_log
from jbodlab.storage.log.log_config import LogConfig
from tests.broker.disks import eventually, make_log_dir
from tests.broker.logs import TOPIC_ID, read_direct, topic_partition
from tests.builders import batch_at
from tests.jbodlab.storage.log.direct_log import DirectLog
from tests.waiting import turns

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


class Box:
    """A log of batches with two records each."""

    def __init__(self, log: PartitionLog, log_dir: LogDir) -> None:
        self.log, self.log_dir = log, log_dir
        self.checkpoints: list[tuple[int, int, int]] = []
        """Recovery point and high watermark at most, and the log end, whenever asked for."""
        self.checkpoints_written = asyncio.Event()
        self.checkpoints_written.set()

    def append(self, count: int = 1, *, epoch: int = 0) -> None:
        for _ in range(count):
            batch = batch_at(self.log.end_offset, epoch=epoch)
            self.log.append_as_follower(batch, [read_header(batch)])

    def stall(self) -> threading.Event:
        """Let the serving queue stand still until the event is set."""
        resume = threading.Event()
        self.log_dir.run(lambda: resume.wait(20))
        return resume

    async def check(self) -> DirectLog:
        """File and state say the same; returns the log opened anew from its files."""
        log = self.log
        await log.written()
        loaded = DirectLog.load(PosixFileSystem(), log.files.directory, CONFIG)
        assert loaded.log_end_offset == log.end_offset == log.written_end
        assert loaded.epochs.entries == tuple(
            entry for entry in log.epochs.entries if entry[1] < log.end_offset
        )
        assert loaded.segment_base_offsets == log.state.segments.base_offsets
        assert loaded.size_bytes == log.state.segments.size_bytes
        entry, other = loaded.producers.entry(7), log.producers.entry(7)
        assert (entry and entry.last_sequence) == (other and other.last_sequence)
        offset = 0
        while offset < log.end_offset:
            for _, header in iterate_headers(read_direct(log, offset)):
                assert header.base_offset == offset
                offset = header.next_offset
        loaded.abandon()
        return loaded


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    log_dir = make_log_dir(tmp_path / "d1", 1)
    created: LoadedLog = await log_dir.run(
        lambda: create_log(
            log_dir.fs, log_dir.path, topic_partition(0), TOPIC_ID, CONFIG, log_dir.files
        )
    )
    log: PartitionLog

    async def write_checkpoints(_log_dir: object) -> None:
        state = log.state
        recovery, committed = checkpointed.recovery_point(state), state.disk.below_cut(1 << 60)
        box.checkpoints.append((recovery, committed, log.end_offset))
        await box.checkpoints_written.wait()

    log = PartitionLog(created, DirectoryWriter(log_dir, write_checkpoints), TailCacheBudget())
    box = Box(log, log_dir)
    yield box
    log_dir.stop()


async def test_cut_is_complete_for_everybody_at_once_and_in_order_for_the_disk(box: Box) -> None:
    box.append(20)
    await box.log.truncate(26)
    assert box.log.end_offset == box.log.written_end == 26
    box.log.assign_epoch(5)
    box.append(3, epoch=5)
    await box.check()
    assert box.log.epochs.entries == ((0, 0), (5, 26))


async def test_the_last_append_of_a_request_is_sent_at_once_and_others_a_turn_later(
    box: Box,
) -> None:
    serving = box.log_dir.queues["serving"]
    data = build_batch([(None, b"v")], timestamp_ms=1)
    header = read_header(data)

    box.log.append_as_leader(data, header, 0)
    assert not serving.queue_length
    await turns()
    await box.log.written()
    assert box.log.written_end == 1

    box.log.append_as_leader(data, header, 0)
    box.log.append_as_leader(data, header, 0, is_last=True)
    assert serving.queue_length == 1
    await box.log.written()
    assert box.log.written_end == 3
    await box.check()


async def test_checkpoints_name_nothing_behind_a_cut_before_it_is_made(box: Box) -> None:
    box.append(20)
    await box.log.written()
    await box.log.sync(box.log.state.sync_request(with_active=True))
    assert checkpointed.recovery_point(box.log.state) > 10

    box.checkpoints_written.clear()
    cutting = asyncio.ensure_future(box.log.truncate(10))
    await eventually(lambda: box.checkpoints)
    ((recovery_point, high_watermark, end_offset),) = box.checkpoints
    assert recovery_point <= 10
    assert high_watermark == 10
    assert end_offset == 40, "nothing is cut before it is written"
    # Nor does a sync that ends meanwhile raise what the next checkpoint says.
    await box.log.sync(box.log.state.sync_request(with_active=True))
    assert checkpointed.recovery_point(box.log.state) <= 10
    box.checkpoints_written.set()
    assert await cutting
    await box.check()
    assert box.log.end_offset == 10
    assert box.log.state.disk.below_cut(40) == 40


async def test_cut_above_the_high_watermark_in_the_active_segment_writes_no_checkpoint(
    box: Box,
) -> None:
    box.append(20)
    end = box.log.end_offset
    assert box.log.state.active.base_offset < end - 2
    assert await box.log.truncate(end - 2, committed=end - 2)
    assert not box.checkpoints
    assert await box.log.truncate(end - 4, committed=end - 2)
    assert [high_watermark for _, high_watermark, _ in box.checkpoints] == [end - 4]


async def test_cut_that_is_not_wanted_any_more_gives_the_checkpoints_free(box: Box) -> None:
    box.append(20)
    follows = True
    box.checkpoints_written.clear()
    cutting = asyncio.ensure_future(box.log.truncate(10, is_wanted=lambda: follows))
    await eventually(lambda: box.checkpoints)
    follows = False
    box.checkpoints_written.set()
    assert not await cutting
    assert box.log.end_offset == 40
    assert box.log.state.disk.below_cut(40) == 40


async def test_cut_that_is_given_up_leaves_the_checkpoints_lowered_for_another(box: Box) -> None:
    box.append(20)
    await box.log.written()
    await box.log.sync(box.log.state.sync_request(with_active=True))
    follows = True
    resume_former = box.stall()
    former = asyncio.ensure_future(box.log.truncate(6, is_wanted=lambda: follows))
    await eventually(lambda: box.checkpoints)
    # The next leader epoch begins with a cut as well, before the former one is made.
    follows = False
    box.checkpoints_written.clear()
    later = asyncio.ensure_future(box.log.truncate(10))
    await eventually(lambda: len(box.checkpoints) == 2)
    resume_former.set()
    assert not await former
    assert checkpointed.recovery_point(box.log.state) <= 10
    assert box.log.state.disk.below_cut(40) == 10
    box.checkpoints_written.set()
    assert await later
    assert box.log.state.disk.below_cut(40) == 40
    await box.check()


async def test_role_change_while_the_place_of_a_cut_is_looked_up_leaves_the_log_whole(
    box: Box,
) -> None:
    box.append(20)
    await box.log.written()
    resume = box.stall()
    follows = True
    cutting = asyncio.ensure_future(box.log.truncate(20, is_wanted=lambda: follows))
    await asyncio.sleep(0.01)
    follows = False
    box.log.assign_epoch(2)
    box.append(2, epoch=2)
    resume.set()

    assert not await cutting

    assert box.log.end_offset == 44
    assert box.log.epochs.entries == ((0, 0), (2, 40))
    loaded = await box.check()
    assert loaded.epochs.entries == ((0, 0), (2, 40))


async def test_cancelled_truncation_leaves_file_and_state_as_they_were(box: Box) -> None:
    box.append(20)
    await box.log.written()
    resume = box.stall()
    cutting = asyncio.ensure_future(box.log.truncate(20))
    await asyncio.sleep(0.01)
    cutting.cancel()
    await asyncio.gather(cutting, return_exceptions=True)
    resume.set()

    assert box.log.end_offset == 40
    await box.check()
    box.append(2)
    await box.check()


async def test_cut_whose_place_another_cut_took_away_looks_for_it_again(box: Box) -> None:
    box.append(20)
    await box.log.written()
    resume = box.stall()
    first = asyncio.ensure_future(box.log.truncate(10))
    second = asyncio.ensure_future(box.log.truncate(20))
    await asyncio.sleep(0.01)
    resume.set()
    assert await first
    # The place that was found for it lies behind the end.
    assert await second
    assert box.log.end_offset == 10
    await box.check()
    box.append(2)
    await box.check()


async def test_cut_behind_appends_on_their_way_takes_them_along(box: Box) -> None:
    resume = box.stall()
    box.append(20)
    cutting = asyncio.ensure_future(box.log.truncate(10))
    await asyncio.sleep(0.01)
    assert box.log.written_end == 0
    resume.set()
    await cutting
    assert box.log.end_offset == 10
    assert box.log.written_end <= 10
    box.append(1)
    await box.check()
    assert box.log.end_offset == 12


async def test_news_of_written_batches_come_once_for_each_call_to_the_disk(box: Box) -> None:
    told: list[int] = []
    box.log.on_written = lambda: told.append(box.log.written_end)
    box.append(5)
    await box.log.written()
    assert told == [10]


async def test_news_of_what_is_written_again_behind_a_cut_come_as_well(box: Box) -> None:
    told: list[int] = []
    box.log.on_written = lambda: told.append(box.log.written_end)
    box.append(5)
    await box.log.written()
    await box.log.truncate(6)
    box.append(2)
    await box.log.written()
    assert told == [10, 10]


async def test_what_is_written_before_a_failure_is_told_first(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    box.log.on_written = lambda: told.append(box.log.written_end)
    box.log.on_failed = lambda error: told.append(type(error))

    def lost(*_: object) -> None:
        raise ReplicaLostError(tmp_path)

    monkeypatch.setattr(box.log.files, "sync", lost)
    resume = box.stall()
    box.append(2)
    epochs = WriteEpochs(box.log.epochs.entries)
    box.log.change((epochs,), sync=box.log.state.sync_request(with_active=True))
    resume.set()
    await eventually(lambda: box.log.failed)
    assert told == [4, ReplicaLostError]


async def test_assigning_an_epoch_syncs_nothing(box: Box) -> None:
    synced: list[str] = []
    disk = box.log_dir.disk
    for name in ("fsync_file", "fsync_dir"):
        real = getattr(disk, name)
        setattr(
            disk,
            name,
            lambda path, real=real: (synced.append(path.name), real(path)),  # type: ignore[misc]
        )
    box.append(1)
    for epoch in range(1, 9):
        box.log.assign_epoch(epoch)
    await box.log.written()
    assert synced == []
    path = box.log.files.directory / "leader-epoch-checkpoint"
    assert read_leader_epochs(PosixFileSystem(), path).latest_epoch == 8

    # But before the recovery point passes them they are on the disk.
    box.append(20, epoch=8)
    request = box.log.state.sync_request(with_active=False)
    await box.log.barrier()
    await box.log.sync(request)
    assert "leader-epoch-checkpoint" in synced
    assert box.log.state.recovery_point == box.log.state.active.base_offset


async def test_sync_of_what_was_cut_meanwhile_moves_no_recovery_point(box: Box) -> None:
    box.append(20)
    await box.log.written()
    resume = threading.Event()
    box.log_dir.upkeep(lambda: resume.wait(20))
    syncing = box.log.sync(box.log.state.sync_request(with_active=True))
    await box.log.truncate(10)
    box.append(20)
    resume.set()
    await syncing
    await asyncio.sleep(0)
    assert box.log.state.recovery_point == 0
    await box.check()
