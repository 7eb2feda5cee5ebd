from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from broker.disk.calls.no_space import NoSpaceError
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.upkeep.retention import DirectoryRemover, RetentionTask
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.errors import LogDirError
from tests.broker.disks import bring_back, eventually, make_log_dirs
from tests.broker.logs import Hosted, append, make_log, no_checkpoints, topic_partition
from tests.waiting import turns


def retention(log_dirs: LogDirs, hosted: Hosted, write: Any = no_checkpoints) -> RetentionTask:
    wall_ms = system_environment().wall_ms
    return RetentionTask(
        log_dirs, hosted, write, check_interval_ms=10, initial_delay_ms=0, wall_ms=wall_ms
    )


async def test_old_segments_below_the_high_watermark_go_and_the_owner_learns_the_new_start(
    tmp_path: Path,
) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    hosted = Hosted()
    config = LogConfig(segment_bytes=100, retention_ms=1_000, file_delete_delay_ms=0)
    log = make_log(tmp_path / "d1", 0, config=config)
    append(log, timestamp_ms=1_000, count=2)
    append(log, timestamp_ms=int(time.time() * 1000) + 60_000)
    hosted.put(log, 3)
    task = retention(log_dirs, hosted)

    await task.check()
    await task.remove_expired()

    assert log.segment_base_offsets == (2,)
    assert hosted.moved == [(topic_partition(0), 2)]
    left = sorted(path.name for path in (tmp_path / "d1" / "orders-0").glob("*.log*"))
    assert left == ["00000000000000000002.log"]


async def test_segments_go_when_the_log_start_behind_them_is_on_the_disk(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    hosted = Hosted()
    log = make_log(tmp_path / "d1", 0, config=LogConfig(segment_bytes=100, retention_ms=1_000))
    append(log, timestamp_ms=1_000, count=3)
    hosted.put(log, 2)
    seen: list[tuple[int, tuple[int, ...]]] = []
    refusal: list[Exception] = []

    async def write(_log_dir: object) -> None:
        seen.append((log.log_start_offset, log.segment_base_offsets))
        for error in refusal:
            raise error

    task = retention(log_dirs, hosted, write)

    await task.check()

    assert seen == [(2, (0, 1, 2))]
    assert log.segment_base_offsets == (2,)
    # Nothing goes, nothing is written.
    await task.check()
    assert len(seen) == 1

    # A disk that has no room for it gets room by what goes, one that failed is left alone.
    append(log, timestamp_ms=1_000, count=2)
    hosted.logs["d1"] = []
    hosted.put(log, 4)
    refusal[:] = [LogDirError(tmp_path / "d1", None, "gone")]
    await task.check()
    assert (log.log_start_offset, log.segment_base_offsets) == (4, (2, 3, 4))
    refusal[:] = [NoSpaceError("full")]
    await task.check()
    assert log.segment_base_offsets == (4,)


async def test_nothing_at_or_above_the_high_watermark_goes(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    hosted = Hosted()
    log = make_log(tmp_path / "d1", 0, config=LogConfig(segment_bytes=100, retention_ms=1_000))
    append(log, timestamp_ms=1_000, count=3)
    hosted.put(log, 1)

    await retention(log_dirs, hosted).check()

    assert log.segment_base_offsets == (1, 2)


async def test_deleted_partition_directories_go_after_their_delay(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    log = make_log(tmp_path / "d1", 0)
    append(log)
    log.rename_to_delete()
    log.close(clean=False)
    remover = DirectoryRemover(log_dirs)

    remover.schedule(log_dirs.all[0], log.directory, 50)

    assert log.directory.exists()
    await eventually(lambda: not log.directory.exists())
    assert log_dirs.all[0].is_online


async def test_what_the_process_before_left_over_is_removed(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 2)
    log = make_log(tmp_path / "d2", 0)
    log.rename_to_delete()
    log.close(clean=False)
    (tmp_path / "d2" / "lost+found").mkdir()

    await DirectoryRemover(log_dirs).schedule_leftovers(0)

    await eventually(lambda: not log.directory.exists())
    assert (tmp_path / "d2" / "lost+found").exists()


async def test_a_directory_removed_by_hand_before_us_is_no_failure(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    remover = DirectoryRemover(log_dirs)

    remover.schedule(log_dirs.all[0], tmp_path / "d1" / "orders-0.aa-delete", 0)
    await turns()
    await log_dirs.all[0].run(lambda: None)

    assert log_dirs.all[0].is_online


async def test_what_was_to_be_removed_from_a_revived_directory_is_removed_once(
    tmp_path: Path,
) -> None:
    log_dirs = make_log_dirs(tmp_path, 2)
    log = make_log(tmp_path / "d1", 0)
    log.rename_to_delete()
    log.close(clean=False)
    remover = DirectoryRemover(log_dirs)
    remover.schedule(log_dirs.all[0], log.directory, 50)
    log_dirs.fail(log_dirs.all[0], "gone")

    life = bring_back(log_dirs, log_dirs.all[0])
    await remover.schedule_leftovers_in(life, 100)

    await eventually(lambda: not log.directory.exists())
    assert life.is_online
