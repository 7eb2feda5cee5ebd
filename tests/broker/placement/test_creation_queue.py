"""Creations of replicas that share a call, in a process that lacks descriptors."""

from __future__ import annotations

import asyncio
import errno
import os
from functools import partial
from pathlib import Path

import pytest

from broker.disk.calls.shortage import ShortageError
from broker.disk.directory.log_dir import LogDir
from broker.placement.creation_queue import CreationQueue
from broker.placement.replica_folders import Creation, create_log
from jbodlab.storage.log.log_config import LogConfig
from tests.broker.disks import FaultPlan, make_log_dir
from tests.broker.logs import TOPIC_ID, topic_partition


class Disk(FaultPlan):
    """Opens nothing below one path."""

    def refuse(self, refused: Path) -> None:
        def opened(path: Path) -> None:
            if path.name.startswith(refused.name):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

        self.plan = {"write_bytes": lambda path: opened(path.parent), "fsync_dir": opened}


async def create(queue: CreationQueue, log_dir: LogDir, number: int) -> str:
    begun = Creation()
    log = await queue.create(
        partial(create_log, log_dir, topic_partition(number), TOPIC_ID, LogConfig(), begun)
    )
    return log.files.directory.name


async def test_one_creation_without_descriptors_does_not_fail_the_others(tmp_path: Path) -> None:
    disk = Disk()
    log_dir = make_log_dir(tmp_path / "d1", 1, disk)
    queue = CreationQueue(log_dir)
    disk.refuse(tmp_path / f"{topic_partition(1).topic}-1")

    results = await asyncio.gather(
        *(create(queue, log_dir, number) for number in (0, 1, 2)), return_exceptions=True
    )

    names = [str(topic_partition(number)) for number in (0, 2)]
    assert [results[0], results[2]] == names
    assert isinstance(results[1], ShortageError)
    disk.plan = {}
    assert await create(queue, log_dir, 1) == str(topic_partition(1))


async def test_replicas_whose_names_cannot_be_synced_are_made_anew(tmp_path: Path) -> None:
    disk = Disk()
    log_dir = make_log_dir(tmp_path / "d1", 1, disk)
    queue = CreationQueue(log_dir)
    disk.refuse(tmp_path / "d1")

    with pytest.raises(ShortageError):
        await create(queue, log_dir, 0)

    assert list((tmp_path / "d1").glob("*-0*")) == []
    disk.plan = {}
    assert await create(queue, log_dir, 0) == str(topic_partition(0))
    assert log_dir.is_online
