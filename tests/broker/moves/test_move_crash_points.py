"""A process that dies at any single step of a move leaves one complete copy of the replica.

The disk under both directories counts what changes it. From the chosen step on it refuses
everything, as the disk of a dead process; then the directories are loaded as by the next start.
"""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.life.loading import LoadedReplica, load_logs
from broker.placement.found_replicas import settle
from jbodlab.config.topic_keys import SEGMENT_BYTES
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import LogDirError
from tests.broker.disks import FaultPlan
from tests.broker.replicas import (
    ME,
    TP,
    Host,
    Metadata,
    batch,
    broker,
    feature,
    partition_record,
    topic,
    until,
)
from tests.broker.stage import Stage
from tests.jbodlab.storage.log.direct_log import DirectLog

CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=200, retention_ms=-1)
BATCHES = 10
STEPS_PER_TEST = 20
STEPS = 100
CHANGES = (
    *("mkdir", "rename", "unlink", "write_bytes", "write_atomically"),
    *("fsync_file", "fsync_dir", "rmtree", "open_append", "open_target"),
    *("write", "writev", "truncate", "fsync", "copy_from"),
)


class MortalDisk(FaultPlan):
    """A disk that dies at a step; infinite until it is counted down."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(CHANGES, self.step))
        self.steps_left = 1 << 60
        self.steps_done = 0

    def step(self, _path: Path) -> None:
        self.steps_left -= 1
        self.steps_done += 1
        if self.steps_left <= 0:
            raise OSError(errno.EIO, "the process is dead")


async def die_at(root: Path, step: int) -> tuple[int, bool, int]:
    """Move a replica on a disk that dies at a step, counted from the start of the move.

    Returns:
        How many records were acknowledged, whether the controller was asked for the target, and
        how many steps were made.
    """
    disk = MortalDisk()
    stage = Stage(root, fs=disk, log_index_interval_bytes="200")
    host = stage.host
    host.assignments.accepts = True
    acknowledged = 0
    await stage.begin(**{SEGMENT_BYTES: "1000"})

    async def produce() -> bool:
        nonlocal acknowledged
        records = batch(2, producer_id=9, sequence=acknowledged, value=b"v" * 50)
        result = await host.produced(records)
        if result.error_code is ErrorCode.NONE:
            assert result.base_offset == acknowledged
            acknowledged += 2
        return result.error_code is ErrorCode.NONE

    for _ in range(BATCHES):
        assert await produce()
    host.assignments.assigned.clear()
    disk.steps_left, disk.steps_done = step, 0
    assert host.manager.move_requests.alter(TP, str(host.dirs[1].path)) is ErrorCode.NONE
    for _ in range(BATCHES):
        if not await produce():
            break
        await asyncio.sleep(0)
    await until(lambda: disk.steps_left <= 0 or bool(host.removed))
    asked = host.directory(1) in [directory for _, _, directory in host.assignments.assigned]
    steps = disk.steps_done
    disk.steps_left = 0
    await host.stop()
    return acknowledged, asked, steps


async def start_again(
    root: Path, image: MetadataImage, host_dirs: list[LogDir]
) -> tuple[list[LoadedReplica], list[LoadedReplica]]:
    fatal: list[str] = []
    log_dirs = LogDirs(host_dirs, metadata_dir=host_dirs[0], on_fatal=fatal.append)
    loaded = await load_logs(log_dirs, lambda _id, _partition: TP, lambda _: CONFIG)
    found = await settle(loaded, image, ME, any_offline=False)
    assert not fatal
    return list(found.replicas), list(found.futures)


def image_with(assigned: int) -> MetadataImage:
    metadata = Metadata()
    directories = [Host.directory(_Ids(), number) for number in range(2)]
    metadata.apply(
        feature(),
        topic(),
        broker(1, *directories),
        partition_record([1], [directories[assigned]]),
    )
    return metadata.image


class _Ids(Host):
    def __init__(self) -> None:
        self.broker_id = ME


@pytest.mark.parametrize("first", range(1, STEPS + 1, STEPS_PER_TEST))
async def test_a_death_at_any_step_leaves_one_complete_copy(tmp_path: Path, first: int) -> None:
    for step in range(first, first + STEPS_PER_TEST):
        root = tmp_path / str(step)
        async with asyncio.timeout(20):
            acknowledged, asked, _ = await die_at(root, step)
            dirs = [
                LogDir(root / f"b1-d{number}", Host.directory(_Ids(), number))
                for number in range(2)
            ]
            replicas, futures = await start_again(root, image_with(1 if asked else 0), dirs)
        (replica,) = replicas
        log = DirectLog(replica.log)
        assert log.directory.name == "orders-0"
        assert log.log_end_offset >= acknowledged, (step, asked)
        offset = 0
        while offset < log.log_end_offset:
            for _, header in iterate_headers(log.read(offset, 1 << 20)):
                assert header.base_offset == offset
                offset = header.next_offset
        entry = log.producers.entry(9)
        assert entry is not None
        assert entry.last_sequence == log.log_end_offset - 1
        assert all(future.log_dir is not replica.log_dir for future in futures)
        current = [path for each in dirs for path in each.path.glob("orders-0")]
        assert len(current) == 1
        for log_dir in dirs:
            log_dir.stop()


async def test_a_move_has_fewer_steps_than_are_tried(tmp_path: Path) -> None:
    _, asked, steps = await die_at(tmp_path, 1 << 60)
    assert asked
    assert 40 < steps <= STEPS


def test_a_disk_that_dies_is_noticed(tmp_path: Path) -> None:
    disk = MortalDisk()
    disk.steps_left = 0
    with pytest.raises(OSError, match="dead"):
        disk.mkdir(tmp_path / "x")
    assert issubclass(LogDirError, Exception)
