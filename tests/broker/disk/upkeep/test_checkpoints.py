from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from broker.disk.calls.no_space import NoSpaceError
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.upkeep.checkpoints import CheckpointWriter
from jbodlab.storage.directory.checkpoints import read_offsets
from jbodlab.storage.log.log_config import LogConfig
from tests.broker.disks import DeadDisk, bring_back, eventually, make_log_dirs
from tests.broker.logs import FS, Hosted, append, make_log, topic_partition


def make_writer(log_dirs: LogDirs, hosted: Hosted, interval_ms: int = 10) -> CheckpointWriter:
    return CheckpointWriter(
        log_dirs,
        hosted,
        high_watermark_interval_ms=interval_ms,
        recovery_point_interval_ms=interval_ms,
        log_start_interval_ms=interval_ms,
        initial_delay_ms=0,
    )


async def test_each_directory_gets_the_offsets_of_its_own_replicas(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 2)
    hosted = Hosted()
    for number in (1, 2):
        log = make_log(tmp_path / f"d{number}", number)
        append(log, count=4)
        log.flush()
        log.roll()
        log.advance_start_to(number)
        hosted.put(log, 3)
    writer = make_writer(log_dirs, hosted)
    writer.start()

    def read(name: str) -> dict[object, int]:
        return dict(read_offsets(FS, tmp_path / "d1" / name))

    await eventually(lambda: read("log-start-offset-checkpoint"))
    await eventually(lambda: read("recovery-point-offset-checkpoint"))
    await eventually(lambda: read("replication-offset-checkpoint"))
    assert read("replication-offset-checkpoint") == {topic_partition(1): 3}
    assert read("recovery-point-offset-checkpoint") == {topic_partition(1): 4}
    assert read("log-start-offset-checkpoint") == {topic_partition(1): 1}
    await writer.stop()


async def test_who_is_cancelled_takes_nothing_from_others_that_wait_for_the_same_checkpoint(
    tmp_path: Path,
) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    hosted = Hosted()
    log = make_log(tmp_path / "d1", 0)
    append(log)
    hosted.put(log, 1)
    writer = make_writer(log_dirs, hosted)
    first = writer.write_high_watermarks(log_dirs.all[0])
    second = writer.write_high_watermarks(log_dirs.all[0])

    first.cancel()

    await second
    path = tmp_path / "d1" / "replication-offset-checkpoint"
    assert read_offsets(FS, path) == {topic_partition(0): 1}


async def test_a_checkpoint_that_a_cut_waits_for_does_not_stand_behind_upkeep(
    tmp_path: Path,
) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    log_dir = log_dirs.all[0]
    hosted = Hosted()
    log = make_log(tmp_path / "d1", 0)
    append(log, count=4)
    log.roll()
    log.advance_start_to(4)
    hosted.put(log, 4)
    writer = make_writer(log_dirs, hosted)
    for write in (writer.write_high_watermarks, writer.write_log_starts):
        await write(log_dir)
    begun, over = threading.Event(), threading.Event()
    log_dir.upkeep(lambda: begun.set() or over.wait(20))
    assert await asyncio.to_thread(begun.wait, 20)
    log.state.disk.will_be_cut(2)

    await writer.lower(log_dir)

    assert log_dir.queues["upkeep"].running_call
    for name in ("replication-offset-checkpoint", "log-start-offset-checkpoint"):
        assert max(read_offsets(FS, tmp_path / "d1" / name).values(), default=0) <= 2
    over.set()


async def test_an_unchanged_checkpoint_is_not_written_again(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    hosted = Hosted()
    log = make_log(tmp_path / "d1", 0)
    append(log)
    hosted.put(log, 0)
    writer = make_writer(log_dirs, hosted)
    path = tmp_path / "d1" / "replication-offset-checkpoint"

    await writer.write_high_watermarks(log_dirs.all[0])
    first = path.stat().st_ino
    await writer.write_high_watermarks(log_dirs.all[0])
    assert path.stat().st_ino == first

    hosted.logs.clear()
    hosted.put(log, 1)
    await writer.write_high_watermarks(log_dirs.all[0])
    assert read_offsets(FS, path) == {topic_partition(0): 1}


async def test_a_closed_segment_is_flushed_before_its_recovery_point_is_written(
    tmp_path: Path,
) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    hosted = Hosted()
    log = make_log(tmp_path / "d1", 0, config=LogConfig(segment_bytes=100))
    append(log, count=3)
    assert log.segment_count == 3
    assert log.needs_flush
    hosted.put(log, 0)

    await make_writer(log_dirs, hosted).write_recovery_points(log_dirs.all[0])

    assert not log.needs_flush
    path = tmp_path / "d1" / "recovery-point-offset-checkpoint"
    # Not more than the beginning of the active segment, which a recovery reads anyway.
    assert read_offsets(FS, path) == {topic_partition(0): 2}


async def test_what_a_stop_has_kept_from_being_synced_is_asked_for_again(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    hosted = Hosted()
    logs = [make_log(tmp_path / "d1", number) for number in range(2)]
    for log in logs:
        append(log, count=3)
        log.roll()
        hosted.put(log, 0)
    first = hosted.logs["d1"][0].log
    never = asyncio.get_running_loop().create_future()
    first.sync = lambda _: never  # type: ignore[method-assign]
    writing = asyncio.ensure_future(
        make_writer(log_dirs, hosted).write_recovery_points(log_dirs.all[0])
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)

    for log in logs:
        request = log.state.sync_request(with_active=True)
        assert request.names
        assert request.metadata


async def test_a_checkpoint_in_a_dead_directory_takes_it_offline_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    log_dirs = make_log_dirs(tmp_path, 2)
    hosted = Hosted()
    hosted.put(make_log(tmp_path / "d2", 2), 0)
    writer = make_writer(log_dirs, hosted)
    (tmp_path / "d1").rmdir()
    writer.start()

    await eventually(lambda: not log_dirs.all[0].is_online)
    path = tmp_path / "d2" / "replication-offset-checkpoint"
    await eventually(lambda: path.exists() and read_offsets(FS, path))

    assert log_dirs.all[1].is_online
    await writer.stop()


async def test_after_a_revival_nothing_is_taken_for_written_already(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 2)
    hosted = Hosted()
    log = make_log(tmp_path / "d1", 0)
    hosted.put(log, 0)
    writer = make_writer(log_dirs, hosted)
    path = tmp_path / "d1" / "replication-offset-checkpoint"
    await writer.write_high_watermarks(log_dirs.all[0])
    log_dirs.fail(log_dirs.all[0], "gone")
    path.write_text("0\n0\n")

    life = bring_back(log_dirs, log_dirs.all[0])
    await writer.write_high_watermarks(life)

    assert read_offsets(FS, path) == {topic_partition(0): 0}


async def test_a_checkpoint_that_found_no_room_is_written_with_the_next_one(tmp_path: Path) -> None:
    disk = DeadDisk()
    log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
    hosted = Hosted()
    log = make_log(tmp_path / "d1", 0)
    append(log)
    hosted.put(log, 1)
    writer = make_writer(log_dirs, hosted)
    (first,) = log_dirs.all

    disk.error = errno.ENOSPC
    with pytest.raises(NoSpaceError):
        await writer.write_high_watermarks(first)
    assert first.is_online
    assert first.space.disk.is_full
    disk.error = None
    await writer.write_high_watermarks(first)

    path = tmp_path / "d1" / "replication-offset-checkpoint"
    assert read_offsets(FS, path) == {topic_partition(0): 1}
