"""Disks that take no more in the middle of what logs want done, whatever they say of their room."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from broker.bounds.limits import FULL_RETRY_S
from broker.disk.calls.no_space import WaitsForRoomError
from broker.disk.condition import disk_space
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.directory.logs_in_use import LogInUse
from broker.disk.life.closing import close_log_dirs
from broker.replica.log import directory_writer
from broker.replica.replica_state import Following, Leading
from jbodlab.record_batch.record_batch import read_header
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import BrokerEpoch
from tests.broker.disks import CrampedDisk
from tests.broker.logs import Hosted
from tests.broker.pair import Node, paired
from tests.broker.replica.box import CONFIG, Box
from tests.broker.replica.watched import ROOM, look, watch
from tests.broker.replicas import TP, Host, batch, change, until
from tests.broker.stage import Stage
from tests.jbodlab.storage.log.direct_log import DirectLog
from tests.waiting import quiet, set_forward, turns

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_writer, "FULL_RETRY_S", 0.02)


async def work(box: Box) -> None:
    """Ask for every kind of instruction."""
    log = box.log
    box.append(2)
    box.abort_a_transaction(50)
    box.append(3, epoch=1)
    await log.written()
    box.abort_a_transaction(51)
    box.append(4, epoch=1)
    await box.truncate(2)
    box.append(2, epoch=2)
    await box.truncate(5)
    box.append(4, epoch=3)
    # In one turn, so that it is one call of the thread.
    log.assign_epoch(4)
    box.append(5, epoch=4)
    await log.written()


@pytest.mark.parametrize("is_torn", [False, True])
async def test_wherever_the_disk_takes_no_more_the_log_is_what_was_appended(
    tmp_path: Path, is_torn: bool
) -> None:
    errors = NO_ROOM + SHORTAGES

    async def at(position: int | None) -> int:
        error = errors[(position or 0) // 2 % len(errors)]
        disk = CrampedDisk(error=error)
        disk.is_torn = disk.cuts = is_torn
        box = await Box.create(tmp_path / str(position), disk)
        begun = disk.taken
        disk.left = position
        await work(box)
        await box.log.barrier()
        await turns()
        if position is not None:
            assert disk.refused
            assert box.log_dir.space.disk.is_full == (error in NO_ROOM)
            await box.check_reading()
            await box.make_room()
        await box.check()
        box.log_dir.stop()
        return disk.taken - begun

    count = await at(None)
    assert count > 40
    # Each place is torn or refused whole: every second one here, the others in the other case.
    for position in range(int(is_torn), count, 2):
        await at(position)


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    box = await Box.create(tmp_path / "box", CrampedDisk())
    yield box
    box.log_dir.stop()


async def blocked(box: Box, count: int = 3) -> None:
    """Append batches for which there is no room."""
    box.disk.left = 0
    box.append(count)
    await until(lambda: box.log.is_blocked)


async def test_what_waits_for_room_is_confirmed_to_nobody_until_it_is_written(box: Box) -> None:
    box.append(2)
    await box.log.written()
    ends: list[int] = []
    box.log.on_written = lambda: ends.append(box.log.written_end)
    await blocked(box)
    box.append()
    await box.log.written()
    assert (box.log.written_end, box.log.end_offset) == (4, 12)
    assert not box.log.is_settled
    assert not ends

    # Tried again, and again refused.
    refused = box.disk.refused
    set_forward(FULL_RETRY_S)
    await until(lambda: box.disk.refused > refused)
    assert not ends

    await box.make_room()
    assert ends[-1] == 12
    await box.check()


async def test_a_directory_stays_full_while_a_log_waits_whatever_the_probe_writes(box: Box) -> None:
    await blocked(box)
    space, disk = box.log_dir.space, box.log_dir.space.disk
    space.written(box.log_dir.environment.monotonic_s())
    assert disk.denial is not None

    await box.make_room()
    assert disk.denial is None
    await blocked(box)
    box.log.writer.give_up(box.log.files)
    await until(lambda: not box.log.is_blocked)
    space.written(box.log_dir.environment.monotonic_s() + disk_space.DENIAL_S)
    assert disk.denial is None


async def test_other_logs_go_on(box: Box) -> None:
    other = Box(box.disk, box.log_dir, await Box.new_log(box.log_dir, box.log.writer, 1))
    await blocked(box)
    # Enough for this one, which has to write its first leader epoch as well.
    box.disk.left = 3
    other.append()
    await other.log.written()
    assert other.log.written_end == 2
    assert box.log.is_blocked
    assert not other.log.is_blocked

    await box.make_room()
    await box.check()
    await other.check()


async def test_retention_makes_room_for_the_log_that_waits(box: Box) -> None:
    box.append(20)
    await box.log.written()
    folder, first = box.log.files.directory, box.log.state.segments.base_offsets[0]
    await blocked(box, 20)
    kept = box.log.state.segments.base_offsets

    box.log.config = LogConfig(segment_bytes=300, index_interval_bytes=100, retention_bytes=1)
    box.disk.renames = True
    assert box.log.retain(0, box.log.written_end)
    box.log.drop_below(box.log.start_offset, 0)
    await box.log.barrier()
    await turns()

    assert box.log.is_blocked
    assert box.log.state.segments.base_offsets != kept
    assert not (folder / f"{first:020}.log").exists()
    assert (folder / f"{first:020}.log.deleted").exists()
    start = box.log.start_offset
    assert start > 0
    await box.make_room()
    assert box.log.written_end == 80
    assert box.log_dir.is_online
    got = box.log.files.read(box.log.state.segments.ranges(start), start, 1 << 20)
    assert read_header(got).base_offset == start


async def test_a_cut_waits_its_turn_and_can_be_given_up_meanwhile(box: Box) -> None:
    box.append(5)
    await box.log.written()
    # It is looked up behind a write that the loop does not know to be stuck.
    box.disk.left = 0
    box.append(3)
    with pytest.raises(WaitsForRoomError):
        await box.log.truncate(4)
    with pytest.raises(WaitsForRoomError):
        await box.log.truncate(12)
    cutting = asyncio.ensure_future(box.log.truncate(4))
    await asyncio.sleep(0)
    cutting.cancel()
    await asyncio.gather(cutting, return_exceptions=True)
    # It leads again.
    box.log.assign_epoch(3)
    assert box.log.end_offset == 16

    await box.make_room()
    box.append(2, epoch=3)
    await box.log.written()
    await box.check()
    await box.truncate(6)
    await box.log.written()
    await box.check()


async def test_a_log_that_begins_anew_does_so_behind_what_waits(box: Box) -> None:
    box.append(10)
    await box.log.written()
    await blocked(box)
    await box.log.restart_at(100)
    assert box.log.end_offset == 100
    box.append(2)

    await box.make_room()
    assert box.log.is_settled
    assert box.log_dir.is_online
    assert box.log.state.segments.base_offsets == (100,)
    files = sorted(each.name for each in box.log.files.directory.glob("*.log"))
    assert files == [f"{100:020}.log"]


async def test_a_directory_that_fails_ends_what_waits(box: Box) -> None:
    await blocked(box)
    box.log_dir.go_offline("pulled out")
    set_forward(FULL_RETRY_S)
    await until(lambda: bool(box.failures))
    assert isinstance(box.failures[0], LogDirError)
    assert len(box.failures) == 1


async def test_a_disk_that_cannot_even_undo_half_a_write_has_failed(box: Box) -> None:
    box.append()
    await box.log.written()

    box.disk.is_torn = True
    box.disk.left = 0
    box.append()
    await until(lambda: bool(box.failures))
    assert "cannot be truncated" in str(box.failures[0])


async def test_no_recovery_point_passes_what_waits(box: Box) -> None:
    box.append(10)
    await box.log.written()
    await blocked(box, 10)
    request = box.log.state.sync_request(with_active=True)
    await box.log.barrier()
    with pytest.raises(WaitsForRoomError):
        await box.log.sync(request)
    assert box.log.state.recovery_point == 0

    await box.make_room()
    await box.log.sync(box.log.state.sync_request(with_active=True))
    await turns()
    assert box.log.state.recovery_point == 40


async def test_a_directory_with_something_that_waits_is_not_marked_as_clean(box: Box) -> None:
    box.append(10)
    await box.log.written()
    await blocked(box, 10)
    box.log.writer.stop()
    box.disk.left = None
    hosted = Hosted()
    hosted.logs["d1"] = [LogInUse(box.log, 20)]
    log_dirs = LogDirs([box.log_dir], metadata_dir=box.log_dir, on_fatal=lambda _: None)

    assert not await close_log_dirs(log_dirs, hosted, BrokerEpoch(1), hang_deadline_s=10)

    assert not (box.log_dir.path / ".kafka_cleanshutdown").exists()
    loaded = DirectLog.load(PosixFileSystem(), box.log.files.directory, CONFIG)
    assert loaded.log_end_offset == 20
    loaded.abandon()


# With replicas


async def led(tmp_path: Path, disk: CrampedDisk) -> Host:
    stage = Stage(tmp_path, fs=disk)
    await stage.begin()
    return stage.host


async def test_a_produce_request_is_answered_when_its_batch_is_written_and_written_once(
    tmp_path: Path,
) -> None:
    disk = CrampedDisk()
    host = await led(tmp_path, disk)
    assert (await host.produced(batch(producer_id=5, sequence=0))).base_offset == 0
    disk.left = 0
    waiting = host.produce(batch(producer_id=5, sequence=1))
    log = (await host.online()).log
    assert log is not None
    await until(lambda: log.is_blocked)
    # The client gave up and asks again.
    again = host.produce(batch(producer_id=5, sequence=1))
    await quiet(host.dirs)
    assert not waiting.done()
    assert not again.done()
    behind = host.produce(batch(producer_id=5, sequence=2))
    await quiet(host.dirs)
    assert not behind.done()
    assert host.dirs[0].is_online

    disk.left = None
    for future in (waiting, again):
        (result,) = await asyncio.wait_for(future, 10)
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 1)
    # As the monitor does that notices the room.
    host.manager.roles.log_dir_condition_changed(host.dirs[0])
    (result,) = await asyncio.wait_for(behind, 10)
    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 2)
    assert log.written_end == log.end_offset == 3
    await host.stop()


async def test_a_replica_that_waits_for_room_can_be_deleted(tmp_path: Path) -> None:
    disk = CrampedDisk()
    host = await led(tmp_path, disk)
    await host.produced(batch())
    partition = await host.online()
    log = partition.log
    assert log is not None
    disk.left = 0
    host.produce(batch())
    await until(lambda: log.is_blocked)

    partition.delete(None)
    host.manager.placement.delete(TP, log)
    await quiet(host.dirs)
    assert not log.is_blocked, "nobody waits for it any more"
    assert host.dirs[0].space.disk.denial, "what was given up tells nothing of the disk"
    assert not host.removed, "a rename may take room as well"
    assert host.dirs[0].is_online

    disk.left = None
    await until(lambda: bool(host.removed))
    assert host.removed[0].name.endswith("-delete")
    await host.stop()


@pytest.fixture
def believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes a small file again is believed to have room."""
    monkeypatch.setattr(disk_space, "DENIAL_S", 0.0)


async def room_again(node: Node, disk: CrampedDisk, condition: Callable[[], bool]) -> None:
    """Wait for what follows when the disk takes everything again."""
    monitor = watch(node.host)
    disk.left = None

    def looked() -> bool:
        look(monitor, node.host.dirs[0], ROOM)
        return condition()

    await until(looked)


@pytest.mark.usefixtures("believed_at_once")
async def test_a_follower_that_waits_for_room_catches_up(tmp_path: Path) -> None:
    disk = CrampedDisk()
    async with paired(tmp_path, disks={2: disk}) as pair:
        await pair.produced(pair.one, batch(2))
        disk.left = 0
        produced = pair.one.host.produce(batch(3))
        log = pair.two.replica.log
        assert log is not None
        await until(lambda: log.is_blocked)
        assert log.written_end == 2
        assert pair.two.replica.high_watermark <= 2
        await quiet(pair.two.host.dirs)
        assert not produced.done(), "the leader is told of nothing that is not written"

        await room_again(pair.two, disk, produced.done)
        assert (await produced)[0].error_code is ErrorCode.NONE
        assert pair.two.content() == pair.one.content()


@pytest.mark.usefixtures("believed_at_once")
async def test_a_leader_that_waits_for_room_becomes_a_follower_without_its_tail(
    tmp_path: Path,
) -> None:
    disk = CrampedDisk()
    async with paired(tmp_path, disks={1: disk}) as pair:
        await pair.produced(pair.one, batch(2))
        disk.left = 0
        lost = pair.one.host.produce(batch(value=b"lost"))
        log = pair.one.replica.log
        assert log is not None
        await until(lambda: log.is_blocked)
        pair.apply(change(isr=(2,), leader=2))
        assert isinstance(pair.two.replica.state, Leading)
        assert isinstance(pair.one.replica.state, Following)
        (result,) = await asyncio.wait_for(lost, 10)
        assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await pair.produced(pair.two, batch(3))).error_code is ErrorCode.NONE
        await quiet(pair.one.host.dirs)
        assert log.written_end == 2

        await room_again(pair.one, disk, lambda: log.written_end == 5)
        assert pair.one.content() == pair.two.content()
        assert pair.one.host.dirs[0].is_online
