"""Creating replicas: in turns, one of a name at a time, and not where one may be already."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from uuid import UUID

import pytest

from broker.bounds.limits import CREATIONS_PER_CALL
from broker.placement.replica_placement import ReplicaPlacement
from broker.replica.replica_state import Absent
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.ids import TopicId
from tests.broker.disks import DeadDisk, FaultPlan, directory_id, fails, make_log_dirs
from tests.broker.logs import TOPIC_ID as LOGS_TOPIC_ID
from tests.broker.logs import no_checkpoints, topic_partition
from tests.broker.replicas import ME, Metadata, broker, feature, partition_record, topic, until
from tests.broker.stage import Stage


async def test_other_work_of_a_directory_finds_its_way_between_creations(tmp_path: Path) -> None:
    disk = DeadDisk()
    log_dirs = make_log_dirs(tmp_path, 1, fs=disk)
    placement = ReplicaPlacement(log_dirs, lambda *_: None, no_checkpoints)
    disk.resume = threading.Event()
    creations = [
        placement.create(
            topic_partition(number), TopicId(LOGS_TOPIC_ID), LogConfig(), directory_id(1)
        )
        for number in range(CREATIONS_PER_CALL + 20)
    ]
    for _ in range(4):
        await asyncio.sleep(0)
    done_before: list[int] = []
    (log_dir,) = log_dirs.all
    append = log_dir.run(lambda: done_before.append(len(list(log_dir.path.iterdir()))))
    disk.resume.set()
    await append
    await asyncio.gather(*(each for each in creations if each is not None))
    assert done_before == [CREATIONS_PER_CALL]
    assert len(list(log_dir.path.iterdir())) == CREATIONS_PER_CALL + 20
    await placement.close()


@pytest.mark.stage(dir_count=1)
async def test_topic_that_is_replaced_while_it_is_created_is_followed_by_the_next(
    stage: Stage,
) -> None:
    stage.describe(partitions=0)
    for number in range(4):
        topic_id = TopicId(UUID(int=0x5000 + number))
        if number:
            stage.apply(RemoveTopicRecord(topic_id=TopicId(UUID(int=0x5000 + number - 1))))
        stage.apply(
            topic(topic_id=topic_id),
            partition_record((1,), (stage.place(1),), topic_id=topic_id),
        )
    await stage.host.online()
    assert stage.log.files.topic_id == topic_id
    await until(lambda: len(stage.host.removed) == 3)
    assert stage.host.dirs[0].is_online


@pytest.mark.stage(dir_count=3)
@pytest.mark.parametrize("is_assigned", [False, True], ids=["unassigned", "the only one, moving"])
async def test_replica_that_an_earlier_process_knew_may_lie_in_a_dead_directory(
    stage: Stage, is_assigned: bool
) -> None:
    host = stage.host
    records = [
        feature(),
        broker(1, *host.directories),
        topic(),
        partition_record((1,), (host.directory(1) if is_assigned else UNASSIGNED,)),
        # Of this one another broker has the records.
        partition_record((1, 2), (host.directory(1), UNASSIGNED), index=2),
    ]
    # Records that the process before this one had read.
    earlier = Metadata()
    earlier.apply(*records)
    host.manager.placement.note_earlier(earlier.image, ME)
    stage.fail()

    stage.apply(*records)
    replica = stage.partition
    assert isinstance(replica.state, Absent)
    # Replicas that were created since then cannot be in there.
    stage.apply(partition_record((1,), (UNASSIGNED,), index=1))
    online = host.registry.online_replicas
    await until(lambda: {p.topic_partition.partition for p, _ in online()} == {1, 2})
    assert isinstance(replica.state, Absent)


@pytest.mark.stage(dir_count=3)
async def test_unassigned_replica_is_created_when_all_directories_are_there(stage: Stage) -> None:
    stage.describe(partitions=0)
    stage.host.manager.placement.note_earlier(stage.metadata.image, ME)
    stage.apply(partition_record((1,), (UNASSIGNED,)))
    await stage.host.online()


def folders(path: Path) -> list[str]:
    """Names in a directory, without those that the next start removes."""
    return sorted(entry.name for entry in path.iterdir() if not entry.name.endswith("-delete"))


class DiesWhenRenaming(PosixFileSystem):
    """A disk that renames and then fails."""

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        super().rename(source, target, sync=sync)
        if target.name != "orders-0":
            return
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))


@pytest.mark.parametrize(
    ("disk", "found"),
    [
        (FaultPlan({"write_bytes": fails(errno.EIO)}), (True, [], ["orders-0"])),
        # It may have got its name, so that it is not created elsewhere.
        (DiesWhenRenaming(), (False, ["orders-0"], [])),
    ],
)
async def test_directory_that_dies_in_a_creation_has_no_second_log_when_it_is_back(
    tmp_path: Path, disk: PosixFileSystem, found: tuple[bool, list[str], list[str]]
) -> None:
    log_dirs = make_log_dirs(tmp_path, 2, fs=disk)
    placement = ReplicaPlacement(log_dirs, lambda *_: None, no_checkpoints)
    creation = placement.create(topic_partition(0), TopicId(LOGS_TOPIC_ID), LogConfig(), UNASSIGNED)
    assert creation is not None
    is_made = await creation is not None
    assert not log_dirs.all[0].is_online
    await placement.close()
    assert (is_made, folders(tmp_path / "d1"), folders(tmp_path / "d2")) == found


@pytest.mark.parametrize("call", ["mkdir", "write_bytes"])
async def test_replica_waits_for_room_where_no_disk_takes_it_and_leaves_nothing_there(
    tmp_path: Path, call: str
) -> None:
    disk = FaultPlan({call: fails(errno.ENOSPC)})
    stage = Stage(tmp_path, fs=disk)
    stage.describe(directory=UNASSIGNED)
    host, replica = stage.host, stage.partition

    await until(lambda: isinstance(replica.state, Absent))

    assert all(log_dir.is_online for log_dir in host.dirs)
    assert all(log_dir.space.disk.is_full for log_dir in host.dirs)
    assert [log_dir.replica_count for log_dir in host.dirs] == [0, 0]
    assert [[*log_dir.path.iterdir()] for log_dir in host.dirs] == [[], []]
    disk.plan.clear()
    for log_dir in host.dirs:
        log_dir.space.disk.denial = None
        host.manager.roles.log_dir_condition_changed(log_dir)
    assert (await host.online()) is replica
    assert sum(log_dir.replica_count for log_dir in host.dirs) == 1
    await host.stop()
