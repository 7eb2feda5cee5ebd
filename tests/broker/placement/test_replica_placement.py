from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.placement import replica_placement
from broker.placement.replica_placement import ReplicaPlacement
from broker.replica.log.partition_log import PartitionLog
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicId
from tests.broker.disks import directory_id, eventually, make_log_dirs
from tests.broker.logs import TOPIC_ID, append, make_log, no_checkpoints, topic_partition
from tests.broker.replicas import ME, Metadata, broker, feature, partition_record, topic
from tests.waiting import turns

TP = topic_partition(0)
OLD = TopicId(TOPIC_ID)
NEW = TopicId(UUID(int=0xFEED))


@pytest.fixture
async def placement(tmp_path: Path) -> AsyncIterator[ReplicaPlacement]:
    """Places replicas in two directories."""
    log_dirs = make_log_dirs(tmp_path, 2)
    made = ReplicaPlacement(log_dirs, lambda *_: None, no_checkpoints)
    yield made
    await made.close()


def creating(placement: ReplicaPlacement, *arguments: Any) -> Awaitable[PartitionLog | None]:
    creation = placement.create(*arguments)
    assert creation is not None
    return creation


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


async def test_log_of_a_topic_that_was_replaced_meanwhile_is_kept_as_stray(
    placement: ReplicaPlacement,
) -> None:
    first = placement.log_dirs.all[0]
    log = make_log(first.path, 0)
    append(log)
    placement.add_loaded(log, first, 0)

    assert placement.find(TP, NEW) is None
    made = await creating(placement, TP, NEW, LogConfig(), directory_id(1))

    assert made is not None
    assert made.files.topic_id == NEW
    stray, current = sorted(names_in(first.path), key=len, reverse=True)
    assert current == "orders-0"
    assert stray.endswith("-stray")
    assert first.is_online


async def test_log_whose_replica_left_while_it_was_loaded_is_kept_as_stray(
    placement: ReplicaPlacement,
) -> None:
    first, second = placement.log_dirs.all
    gone, ours = make_log(first.path, 0), make_log(second.path, 1)
    placement.add_loaded(gone, first, 0)
    placement.add_loaded(ours, second, 0)

    placement.put_strays_aside(lambda _id, partition: topic_partition(1) if partition else None)

    await eventually(lambda: all(name.endswith("-stray") for name in names_in(first.path)))
    assert names_in(second.path) == ["orders-1"]
    assert placement.find(TP, OLD) is None
    assert placement.find(topic_partition(1), OLD) is not None


async def test_log_found_in_a_directory_that_failed_since_is_not_created_elsewhere(
    placement: ReplicaPlacement,
) -> None:
    first, second = placement.log_dirs.all
    placement.add_loaded(make_log(first.path, 0), first, 0)
    placement.log_dirs.fail(first, "test")

    assert placement.find(TP, OLD) is None
    # The metadata does not know yet where it is, but this broker does.
    assert placement.create(TP, OLD, LogConfig(), UNASSIGNED) is None
    assert names_in(second.path) == []
    # A new topic of the same name is another matter.
    assert await creating(placement, TP, NEW, LogConfig(), UNASSIGNED) is not None
    assert names_in(second.path) == ["orders-0"]


async def test_deleting_a_replica_that_was_removed_by_hand_is_no_failure(
    placement: ReplicaPlacement,
) -> None:
    log = await creating(placement, TP, OLD, LogConfig(), directory_id(1))
    assert log is not None
    shutil.rmtree(log.files.directory)

    placement.delete(TP, log)
    assert await creating(placement, TP, NEW, LogConfig(), directory_id(1)) is not None
    assert len(placement.log_dirs.online()) == 2


async def test_remains_of_an_interrupted_creation_are_taken_over(
    placement: ReplicaPlacement,
) -> None:
    first = placement.log_dirs.all[0]
    (first.path / "orders-0").mkdir()
    (first.path / "orders-0" / "partition.metadata.tmp").write_text("half")
    assert await creating(placement, TP, OLD, LogConfig(), directory_id(1)) is not None


@pytest.mark.parametrize("is_log", [True, False])
async def test_what_is_in_the_way_of_a_new_replica_costs_no_directory(
    is_log: bool, placement: ReplicaPlacement
) -> None:
    first = placement.log_dirs.all[0]
    if is_log:
        make_log(first.path, 0).close(clean=False)
    else:
        (first.path / "orders-0").write_text("a plain file")
    creation = creating(placement, TP, NEW, LogConfig(), directory_id(1))
    with pytest.raises(KafkaError, match="already exists"):
        await creation
    assert first.is_online
    await eventually(lambda: first.replica_count == 0)


async def test_creation_goes_on_in_the_next_directory_when_one_dies_of_it(
    placement: ReplicaPlacement,
) -> None:
    first, second = placement.log_dirs.all
    shutil.rmtree(first.path)
    made = await creating(placement, TP, OLD, LogConfig(), UNASSIGNED)
    assert made is not None
    assert made.log_dir is second
    assert not first.is_online
    await asyncio.sleep(0)


async def test_a_log_is_made_when_no_checkpoint_speaks_of_a_former_one_of_its_name(
    tmp_path: Path,
) -> None:
    """After a crash that would be taken for what is known of the new one."""
    log_dirs = make_log_dirs(tmp_path, 1)
    is_written, asked = asyncio.Event(), asyncio.Event()

    async def write(_log_dir: object) -> None:
        asked.set()
        await is_written.wait()

    placement = ReplicaPlacement(log_dirs, lambda *_: None, write)
    log = await creating(placement, TP, OLD, LogConfig(), directory_id(1))
    assert log is not None
    placement.delete(TP, log)
    again = creating(placement, TP, NEW, LogConfig(), directory_id(1))

    await asked.wait()
    await turns()
    assert not (tmp_path / "d1" / "orders-0").exists()
    is_written.set()

    assert await again is not None
    assert (tmp_path / "d1" / "orders-0").exists()
    await placement.close()


async def test_of_too_many_wishes_the_oldest_give_way(
    monkeypatch: pytest.MonkeyPatch, placement: ReplicaPlacement
) -> None:
    monkeypatch.setattr(replica_placement, "WISHES_MAX", 2)

    first, second = placement.log_dirs.all
    for index in (0, 1, 0, 2):
        placement.wish(topic_partition(index), second.path)
    for index in range(3):
        creation = placement.create(topic_partition(index), OLD, LogConfig(), UNASSIGNED)
        assert creation is not None
        await creation

    assert names_in(first.path) == ["orders-1"]
    assert names_in(second.path) == ["orders-0", "orders-2"]


async def test_only_replica_that_was_found_may_be_made_anew_where_its_disk_was_replaced(
    placement: ReplicaPlacement,
) -> None:
    first, second = placement.log_dirs.all
    earlier = Metadata()
    replica = partition_record((1,), (directory_id(1),), topic_id=OLD)
    earlier.apply(feature(), broker(1, directory_id(1)), topic(topic_id=OLD), replica)
    placement.note_earlier(earlier.image, ME)
    placement.add_loaded(make_log(first.path, 0), first, 0)
    placement.log_dirs.fail(second, "test")
    assert not placement.may_create(TP, OLD, directory_id(1))

    assert placement.find(TP, OLD) is not None

    assert placement.may_create(TP, OLD, directory_id(1))
