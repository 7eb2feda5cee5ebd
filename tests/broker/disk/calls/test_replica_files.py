from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.disk.calls.replica_files import UNGUARDED, ReplicaLostError, guarded_disk
from broker.disk.upkeep.checkpoints import CheckpointWriter
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.errors import LogDirError
from tests.broker.disks import make_log_dirs
from tests.broker.logs import TOPIC_ID, Hosted, append, topic_partition
from tests.jbodlab.storage.log.direct_log import DirectLog


def make_files(tmp_path: Path) -> FileSystem:
    return guarded_disk(PosixFileSystem(), tmp_path, PosixFileSystem().identity(tmp_path))


def test_missing_file_of_a_folder_that_is_there_is_a_missing_file(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    (tmp_path / "orders-0").mkdir()
    for path in (tmp_path / "orders-0" / "none", tmp_path / "replication-offset-checkpoint"):
        with pytest.raises(FileNotFoundError):
            files.read_bytes(path)
    # Names of files in the directory itself are no folders of replicas.
    with pytest.raises(FileNotFoundError):
        files.rename(tmp_path / "meta.properties", tmp_path / "other")


def test_file_of_a_folder_that_is_gone_is_a_lost_replica(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    lost = tmp_path / "orders-0"
    with pytest.raises(ReplicaLostError, match="orders-0 was removed"):
        files.open_append(lost / "00000000000000000000.log")
    with pytest.raises(ReplicaLostError):
        files.rename(lost, tmp_path / "orders-0.abc-delete")
    with pytest.raises(ReplicaLostError):
        files.fsync_dir(lost)


def test_folder_that_is_gone_with_its_directory_is_a_failed_directory(tmp_path: Path) -> None:
    log_dir = tmp_path / "d1"
    log_dir.mkdir()
    (tmp_path / "another").mkdir()
    files = make_files(log_dir)
    log_dir.rmdir()
    with pytest.raises(FileNotFoundError):
        files.open_append(log_dir / "orders-0" / "00000000000000000000.log")
    # An empty mount point took the place of the disk.
    (tmp_path / "another").rename(log_dir)
    with pytest.raises(FileNotFoundError):
        files.open_append(log_dir / "orders-0" / "00000000000000000000.log")


async def test_replica_removed_by_hand_leaves_its_neighbours_and_its_directory(
    tmp_path: Path,
) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    (first,) = log_dirs.all
    hosted = Hosted()
    for number in (0, 1):
        log = await first.run(
            lambda number=number: DirectLog.create(
                first.fs, first.path, topic_partition(number), TOPIC_ID, LogConfig()
            )
        )
        await first.run(lambda log=log: append(log, count=3))
        await first.run(log.roll)
        hosted.put(log, 3)
    lost, healthy = (each.log.log for each in hosted.logs["d1"])

    await first.run(lambda: append(lost))
    shutil.rmtree(lost.directory)
    for work in (lost.roll, lost.flush, lost.rename_to_delete):
        with pytest.raises(ReplicaLostError):
            await first.run(work)

    writer = CheckpointWriter(
        log_dirs,
        hosted,
        high_watermark_interval_ms=60_000,
        recovery_point_interval_ms=60_000,
        log_start_interval_ms=60_000,
        initial_delay_ms=0,
    )
    await writer.write_recovery_points(first)
    assert healthy.recovery_point == 3
    assert first.is_online
    # The loss of the directory itself is another matter.
    shutil.rmtree(first.path)
    with pytest.raises(LogDirError):
        await first.run(lambda: healthy.files.rename_to("orders-9"))


def test_methods_without_a_guard_are_methods_of_a_disk() -> None:
    assert set(dir(FileSystem)) > UNGUARDED
