from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from broker.assemblies.replicas import PRODUCER_EXPIRATION_CHECK_S
from broker.replica.replica_state import Absent, Offline
from jbodlab.config.topic_keys import SEGMENT_BYTES
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.storage.log.loaded_log import create_log
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.directory_id import LOST, UNASSIGNED
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import DirectoryId, TopicId
from tests.broker.replicas import (
    TOPIC,
    TOPIC_ID,
    TP,
    batch,
    broker,
    change,
    config,
    directory_id,
    partition_record,
    topic,
    until,
)
from tests.broker.stage import Stage, tp
from tests.waiting import set_forward, turns

UNKNOWN = directory_id(99)


class Single(Stage):
    """Broker 1 alone, with three directories."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path, dir_count=3)
        self.describe(partitions=0)

    def create(self, directory: DirectoryId, index: int = 0) -> None:
        self.apply(partition_record((1,), (directory,), index=index))

    def replicas_on_disk(self) -> dict[str, list[str]]:
        return {
            log_dir.path.name[-2:]: sorted(path.name for path in log_dir.path.iterdir())
            for log_dir in self.host.dirs
        }


@pytest.fixture
async def single(tmp_path: Path) -> AsyncIterator[Single]:
    async with Single(tmp_path) as single:
        yield single


async def test_replicas_of_one_delta_are_spread_over_the_directories(single: Single) -> None:
    single.apply(*(partition_record((1,), (UNASSIGNED,), index=index) for index in range(6)))

    for index in range(6):
        await single.host.online(tp(index))
    await until(lambda: len(single.host.assignments.assigned) == 6)

    assert [len(names) for names in single.replicas_on_disk().values()] == [2, 2, 2]
    assigned = {index: directory for _, index, directory in single.host.assignments.assigned}
    assert sorted(assigned) == list(range(6))
    for index, directory in assigned.items():
        assert single.log_at(index).log_dir.directory_id == directory


async def test_replica_is_created_in_its_assigned_directory_and_nothing_is_reported(
    single: Single,
) -> None:
    single.create(single.host.directory(2))

    await single.host.online()

    assert single.replicas_on_disk()["d2"] == ["orders-0"]
    assert single.host.assignments.assigned == []


async def test_replica_in_an_offline_directory_is_not_created_again(single: Single) -> None:
    single.fail(1)

    for index, directory in enumerate((single.host.directory(1), UNKNOWN, LOST)):
        single.create(directory, index)

    for index in range(3):
        assert isinstance(single.partition_at(index).state, Absent)
        result = await single.host.produced(batch(), topic_partition=tp(index))
        assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert single.replicas_on_disk() == {"d0": [], "d1": [], "d2": []}


async def test_unknown_directory_is_replaced_while_all_directories_are_online(
    single: Single,
) -> None:
    single.create(UNKNOWN)

    await single.host.online()
    await until(lambda: bool(single.host.assignments.assigned))

    assert single.host.assignments.assigned == [(TOPIC_ID, 0, single.host.directory(0))]


async def test_log_found_elsewhere_is_used_and_its_directory_reported(single: Single) -> None:
    log_dir = single.host.dirs[1]
    log = create_log(log_dir.fs, log_dir.path, TP, TOPIC_ID, LogConfig(), log_dir.files)
    single.host.manager.placement.add_loaded(log, log_dir, 0)

    single.create(single.host.directory(0))

    partition = await single.host.online()
    assert partition.log.files is log.files
    assert single.host.assignments.assigned == [(TOPIC_ID, 0, single.host.directory(1))]


async def test_failed_replica_stays_offline_whatever_the_metadata_says(single: Single) -> None:
    single.create(single.host.directory(0))
    partition = await single.host.online()
    single.fail()

    single.apply(change(leader=1))
    single.create(single.host.directory(1))

    assert single.host.registry.partition(TP) is partition
    assert isinstance(partition.state, Offline)
    assert partition.is_without_log
    assert single.replicas_on_disk()["d1"] == []


async def test_new_topic_of_the_same_name_replaces_an_offline_replica(single: Single) -> None:
    single.create(single.host.directory(0))
    await single.host.online()
    single.fail()
    again = TopicId(UUID(int=0x5678))

    single.apply(
        RemoveTopicRecord(topic_id=TOPIC_ID),
        topic(topic_id=again),
        partition_record((1,), (UNASSIGNED,), topic_id=again),
    )

    assert (await single.host.online()).topic_id == again


async def test_new_topic_of_the_same_name_waits_for_the_old_directory_to_be_renamed(
    single: Single,
) -> None:
    single.create(single.host.directory(0))
    await single.host.online()
    await single.host.produced(batch())
    again = TopicId(UUID(int=0x5678))

    single.apply(RemoveTopicRecord(topic_id=TOPIC_ID))
    single.apply(
        topic(topic_id=again),
        partition_record((1,), (single.host.directory(0),), topic_id=again),
    )

    await single.host.online()
    assert (await single.host.produced(batch())).base_offset == 0
    names = single.replicas_on_disk()["d0"]
    assert len(names) == 2
    assert sum(name.endswith("-delete") for name in names) == 1
    await until(lambda: len(single.host.removed) == 1)


async def test_replica_that_moved_away_is_deleted(single: Single) -> None:
    single.create(single.host.directory(0))
    await single.host.online()

    single.apply(broker(2, directory_id(20)), partition_record((2,), (directory_id(20),)))

    assert single.host.registry.partition(TP) is None
    await until(lambda: len(single.host.removed) == 1)
    result = await single.host.produced(batch())
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert result.leader_hint is not None
    assert result.leader_hint.leader == 2


async def test_changed_topic_config_applies_to_running_replicas(single: Single) -> None:
    single.create(single.host.directory(0))
    partition = await single.host.online()

    single.apply(config("max.message.bytes", "70"), config(SEGMENT_BYTES, "5000"))

    assert (await single.host.produced(batch(5))).error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert partition.log.config.segment_bytes == 5000


async def test_a_repeated_batch_of_old_records_is_not_appended_again_after_a_while(
    single: Single,
) -> None:
    single.create(single.host.directory(0))
    partition = await single.host.online()
    single.host.manager.start()
    # Of 1970.
    first = batch(3, producer_id=7, sequence=0)
    assert (await single.host.produced(first)).base_offset == 0
    for _ in range(3):
        set_forward(PRODUCER_EXPIRATION_CHECK_S + 1)
        await turns()

    assert (await single.host.produced(first)).base_offset == 0
    assert partition.log.end_offset == 3


async def test_unknown_acks_are_refused(single: Single) -> None:
    result = await single.host.produced(batch(), acks=2)

    assert result.error_code is ErrorCode.INVALID_REQUIRED_ACKS


async def test_described_directories_show_replicas_and_failures(single: Single) -> None:
    single.create(single.host.directory(0))
    single.create(single.host.directory(1), 1)
    await single.host.online(tp(1))
    await single.host.online()
    await single.host.produced(batch(3))
    single.fail(1)

    first, second, third = await single.host.manager.describe_log_dirs(None)
    none = await single.host.manager.describe_log_dirs({TOPIC: {1}})

    assert [replica.size_bytes for replica in first.replicas] == [len(batch(3))]
    assert first.total_bytes >= first.usable_bytes > 0
    assert second.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (second.replicas, second.total_bytes) == ((), -1)
    assert third.replicas == none[0].replicas == ()


async def test_last_directory_that_fails_is_fatal(single: Single) -> None:
    for log_dir in reversed(single.host.dirs):
        single.host.log_dirs.fail(log_dir, "test")

    assert len(single.host.fatal) == 1
