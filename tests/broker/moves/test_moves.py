"""Moves of replicas between real directories, with everything that may come in between."""

from __future__ import annotations

import asyncio

import pytest

from broker.disk.condition.disk_space import DiskSpace
from broker.moves.move_states import MoveState
from broker.replica.replica_state import Leading, Offline
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.record_batch.record_batch import read_header
from jbodlab.storage.compaction.compaction_plan import CleanedSegment
from jbodlab.storage.directory.names import INDEX_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, TIME_INDEX_SUFFIX
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.leader_epochs import read_leader_epochs
from jbodlab.storage.log.segments import ActiveSegment
from jbodlab.storage.log.transactions import ABORT, AbortedTransaction
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.moves.moving import Moving
from tests.broker.replicas import TOPIC_ID, TP, batch, change, until
from tests.broker.stage import tp
from tests.jbodlab.storage.log import transactional
from tests.jbodlab.storage.log.direct_log import DirectLog
from tests.waiting import quiet

PRODUCER, OTHER_PRODUCER = 7, 8
PER_BATCH = 3


async def test_a_replica_moves_while_a_producer_writes(moving: Moving) -> None:
    partition = await moving.lead(accepts=True)
    moving.produce_all_the_while()

    await moving.moved(1)
    await until(lambda: bool(moving.host.removed))
    before = moving.sent
    await until(lambda: moving.sent > before + 20)
    await moving.finish_producing()

    assert moving.names(0) == ["delete"]
    assert moving.names(1) == ["current"]
    assert moving.host.moved == [(moving.host.dirs[0], moving.host.dirs[1])]
    assert [path.parent for path in moving.host.removed] == [moving.host.dirs[0].path]
    assert [each.replica_count for each in moving.host.dirs] == [0, 1, 0]
    assert partition.high_watermark == PER_BATCH * moving.sent
    moving.check()


async def test_the_moved_log_opens_again_as_it_is(moving: Moving) -> None:
    await moving.lead(accepts=True)
    await moving.moved(1)
    await moving.produce()
    log = moving.log

    loaded = DirectLog.load(moving.host.dirs[1].fs, log.files.directory, log.config)

    assert loaded.log_end_offset == log.end_offset
    assert loaded.segment_base_offsets == log.state.segments.base_offsets
    assert loaded.epochs.entries == log.epochs.entries
    assert loaded.topic_id == TOPIC_ID
    loaded.abandon()


async def test_the_active_segment_moves_with_its_index_of_aborted_transactions(
    moving: Moving,
) -> None:
    partition = await moving.lead(batches=2, accepts=True)
    leader, log = partition.leader_log()
    for data in (transactional.data(0, 5, 0), transactional.marker(0, 5, ABORT)):
        log.append_as_leader(data, read_header(data), leader.leader_epoch)

    await moving.moved(1)

    await quiet(moving.host.dirs)
    (segment,) = moving.log.state.segments.base_offsets
    expected = [AbortedTransaction(5, first_offset=6, last_offset=7, last_stable_offset=8)]
    assert moving.log.files.read_aborted(segment, None) == expected


async def test_appends_wait_for_the_swap_and_keep_their_order(moving: Moving) -> None:
    partition = await moving.lead(batches=3)
    partition.hold()
    waiting = [asyncio.create_task(moving.produce()) for _ in range(1)]
    await quiet(moving.host.dirs)
    assert not waiting[0].done()
    assert moving.log.end_offset == 9
    partition.release()
    await asyncio.gather(*waiting)
    moving.check()


async def test_a_move_is_visible_with_what_it_lacks(moving: Moving) -> None:
    await moving.lead()
    moving.mover.set_rate(0)
    moving.alter(1)
    await until(lambda: moving.move().future is not None)
    moving.mover.set_rate(1_000)
    await until(lambda: moving.move().size_bytes > 0)

    described = await moving.host.manager.describe_log_dirs({"orders": {0}})

    ((current,), (future,), none) = (each.replicas for each in described)
    assert not none
    assert (current.is_future, future.is_future) == (False, True)
    assert 0 < future.size_bytes < current.size_bytes
    assert 0 < future.offset_lag <= PER_BATCH * moving.sent
    assert current.offset_lag == 0


@pytest.mark.parametrize("state", [MoveState.COPYING, MoveState.ASSIGNMENT_QUEUED])
async def test_naming_the_current_directory_cancels(state: MoveState, moving: Moving) -> None:
    partition = await moving.lead()
    await moving.stays(state)
    asked = moving.asked

    assert moving.alter(0) is ErrorCode.NONE
    await until(lambda: moving.names(1) == ["delete"])

    assert asked == ([] if state is MoveState.COPYING else [1])
    assert moving.asked == ([] if state is MoveState.COPYING else [0])
    assert moving.names(0) == ["current"]
    assert partition.promised is None
    moving.accept()
    await moving.produce()
    await quiet(moving.host.dirs)
    assert moving.names(0) == ["current"]
    moving.check()


async def test_a_third_directory_redirects(moving: Moving) -> None:
    await moving.lead()
    await moving.queued(1)
    moving.host.assignments.accepts = True

    await moving.moved(2)
    await until(lambda: len(moving.host.removed) == 2)

    assert [moving.names(n) for n in range(3)] == [["delete"], ["delete"], ["current"]]
    assert moving.asked == [1, 0, 2]
    moving.check()


@pytest.mark.parametrize("state", [MoveState.COPYING, MoveState.ASSIGNMENT_QUEUED])
async def test_a_target_that_fails_ends_the_move_and_nothing_else(
    state: MoveState, moving: Moving
) -> None:
    partition = await moving.lead()
    moving.produce_all_the_while()
    await moving.stays(state)
    assert moving.asked == ([] if state is MoveState.COPYING else [1])

    moving.fail(1)

    assert moving.mover.move_of(TP) is None
    assert moving.asked == ([] if state is MoveState.COPYING else [0])
    assert partition.promised is None
    before = moving.sent
    await until(lambda: moving.sent > before + 5)
    await moving.finish_producing()
    assert isinstance(partition.state, Leading)
    assert moving.names(0) == ["current"]
    assert moving.names(1) == ["future"]
    moving.check()
    assert moving.alter(2) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("state", [MoveState.COPYING, MoveState.ASSIGNMENT_QUEUED])
async def test_a_source_that_fails_takes_the_replica_offline_and_keeps_the_copy(
    state: MoveState, moving: Moving
) -> None:
    partition = await moving.lead()
    move = await moving.stays(state)
    assert moving.asked == ([] if state is MoveState.COPYING else [1])

    moving.fail()

    assert isinstance(partition.state, Offline)
    assert move.state is MoveState.SUSPENDED
    assert partition.promised is None
    assert moving.asked == ([] if state is MoveState.COPYING else [0])
    moving.accept()
    await quiet(moving.host.dirs)
    assert move.state is MoveState.SUSPENDED
    assert moving.names(1) == ["future"]
    described = await moving.host.manager.describe_log_dirs(None)
    assert [replica.offset_lag for replica in described[1].replicas] == [-1]


async def test_a_deleted_topic_takes_its_copy_with_it(moving: Moving) -> None:
    await moving.lead()
    await moving.stays(MoveState.COPYING)

    moving.apply(RemoveTopicRecord(topic_id=TOPIC_ID))

    await until(lambda: len(moving.host.removed) == 2)
    assert moving.names(0) == moving.names(1) == ["delete"]
    assert [each.replica_count for each in moving.host.dirs] == [0, 0, 0]


async def test_what_is_truncated_meanwhile_is_truncated_in_the_copy(moving: Moving) -> None:
    partition = await moving.lead()
    move = await moving.queued(1)
    moving.apply(change(isr=[1, 2], leader=2))
    await moving.log.truncate(100)
    assert moving.log.end_offset == 99
    partition.high_watermark = 99
    moving.apply(change(isr=[1], leader=1))
    moving.sent = 33
    for _ in range(20):
        await moving.produce()
    await moving.accepted()

    assert move.state is MoveState.SWAPPED
    assert move.future is not None
    assert moving.log.files is move.future.files
    assert moving.log.epochs.entries == ((0, 0), (2, 99))
    moving.check()


async def test_a_segment_that_a_cut_left_empty_is_in_the_copy_too(moving: Moving) -> None:
    partition = await moving.lead(accepts=True)
    log = moving.log
    bases = log.state.segments.base_offsets
    await log.truncate(bases[3])
    partition.high_watermark = bases[3]
    assert log.state.segments.base_offsets == bases[:4]
    assert not log.state.active.size
    await moving.moved(1)

    assert log.log_dir is moving.host.dirs[1]
    moving.sent = bases[3] // PER_BATCH
    await moving.produce()
    moving.check()


async def test_a_segment_that_compaction_left_empty_is_in_the_copy_too(moving: Moving) -> None:
    await moving.lead()
    log = moving.log
    moving.host.assignments.accepts = True
    emptied = log.state.segments.closed[1]
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        log.files.path(emptied.base_offset, suffix + SWAP_SUFFIX).touch()
    left = ActiveSegment(emptied.base_offset).bounds()
    await log.replace([emptied], [CleanedSegment(left, aborted_count=0)], 0)
    await moving.moved(1)

    assert log.log_dir is moving.host.dirs[1]
    assert log.state.segments.closed[1] == left
    assert log.files.path(emptied.base_offset).exists()


async def test_segments_that_go_by_retention_go_in_the_copy_too(moving: Moving) -> None:
    partition = await moving.lead()
    move = await moving.queued(1)
    bases = moving.log.state.segments.base_offsets
    moving.log.advance_start_to(bases[3] + 3)
    moving.log.drop_below(partition.high_watermark, 0)
    assert moving.log.state.segments.base_offsets == bases[3:]
    await moving.accepted()

    assert move.future is not None
    assert moving.log.state.segments.base_offsets == bases[3:]
    assert moving.log.start_offset == bases[3] + 3
    assert moving.log.state.segments.size_bytes == move.size_bytes
    moving.check()


@pytest.mark.parametrize("kept", [1, 2])
async def test_segments_that_go_before_what_follows_is_copied_go_in_the_copy_too(
    kept: int, moving: Moving
) -> None:
    await moving.lead()
    move = await moving.queued(1)
    log = moving.log
    # Nothing is copied in between: all of this is one turn.
    for _ in range(40):
        moving.produce_beside()
    bases = log.state.segments.base_offsets
    log.advance_start_to(bases[-kept])
    log.drop_below(log.end_offset, 0)
    assert log.state.segments.base_offsets == bases[-kept:]
    await moving.accepted()

    assert log.log_dir is moving.host.dirs[1]
    await log.written()
    folder = log.files.directory
    assert sorted(int(each.stem) for each in folder.glob("*.log")) == [*bases[-kept:]]
    set_aside = sorted(int(each.name.split(".")[0]) for each in folder.glob("*.log.deleted"))
    assert set_aside == log.state.segments.expired(0)
    assert move.size_bytes == log.state.segments.size_bytes
    moving.check()


async def test_a_log_that_begins_anew_meanwhile_is_copied_anew(moving: Moving) -> None:
    partition = await moving.lead()
    await moving.queued(1)
    await moving.log.restart_at(900)
    partition.high_watermark = 900
    await moving.accepted()

    assert moving.log.state.segments.base_offsets == (900,)
    assert moving.log.end_offset == 900


async def test_a_leader_that_turns_in_the_middle_keeps_its_epochs(moving: Moving) -> None:
    await moving.lead(accepts=True)
    moving.alter(1)
    for leader in (2, 1) * 5:
        moving.apply(change(isr=[1, 2], leader=leader))
        await quiet(moving.host.dirs, rounds=1)
    moving.apply(change(isr=[1], leader=1))
    await moving.over()
    await moving.produce()

    await moving.log.written()
    path = moving.log.files.directory / "leader-epoch-checkpoint"
    assert read_leader_epochs(PosixFileSystem(), path).entries == moving.log.epochs.entries
    moving.check()


async def test_the_rate_may_change_while_it_copies(moving: Moving) -> None:
    await moving.lead(accepts=True)
    moving.mover.set_rate(0)
    moving.alter(1)
    await quiet(moving.host.dirs)
    assert moving.move().size_bytes == 0
    moving.mover.set_rate(None)
    await moving.over()
    moving.check()


async def test_what_is_copied_while_appends_are_held_does_not_wait_for_the_rate(
    moving: Moving,
) -> None:
    await moving.lead()
    await moving.queued(1)
    moving.produce_all_the_while()
    moving.mover.set_rate(200_000)
    await moving.accepted()
    await moving.finish_producing()
    moving.check()


async def test_a_target_without_room_is_waited_for(moving: Moving) -> None:
    await moving.lead(accepts=True)
    disk = moving.host.dirs[1].space.disk = DiskSpace(1_000_000)
    disk.looked(1_000_000_000, 1_000_000_000)
    disk.usable_bytes = disk.reserved_bytes
    moving.alter(1)
    await quiet(moving.host.dirs)
    assert moving.move().state is MoveState.COPYING
    assert not disk.is_full, "a move must not make a directory FULL"

    disk.looked(1_000_000_000, 1_000_000_000)
    moving.mover.log_dir_condition_changed(moving.host.dirs[1])
    await moving.over()
    moving.check()


@pytest.mark.parametrize("moving", [{"num_replica_alter_log_dirs_threads": "2"}], indirect=True)
async def test_only_so_many_copy_at_a_time_the_smallest_first(moving: Moving) -> None:
    await moving.begin(partitions=6, directory=moving.host.directory(0))
    names = [tp(n) for n in range(6)]
    for name in names:
        result = await moving.host.produced(batch(3, value=b"x" * 900), topic_partition=name)
        assert result.error_code is ErrorCode.NONE
    moving.mover.set_rate(0)
    path = str(moving.host.dirs[1].path)
    for name in reversed(names):
        moving.host.manager.move_requests.alter(name, path)
    moves = [moving.mover.move_of(name) for name in names]
    await until(lambda: all(move is not None and move.future for move in moves))
    assert [each.replica_count for each in moving.host.dirs] == [6, 6, 0]
    moving.host.assignments.accepts = True
    moving.mover.set_rate(None)
    await until(lambda: not list(moving.mover.moves()))
    await until(lambda: len(moving.host.removed) == 6)

    assert [each.replica_count for each in moving.host.dirs] == [0, 6, 0]


class TestErrors:
    async def test_a_path_that_is_no_log_directory(self, moving: Moving) -> None:
        await moving.lead(batches=1)
        alter = moving.host.manager.move_requests.alter
        right = str(moving.host.dirs[1].path)
        for wrong in ("/nowhere", "any", "", right + "/"):
            assert alter(TP, wrong) is ErrorCode.LOG_DIR_NOT_FOUND
        assert moving.mover.move_of(TP) is None

    async def test_a_name_that_would_be_too_long(self, moving: Moving) -> None:
        await moving.lead(batches=1)
        name = TopicPartition("t" * 220, 0)
        path = str(moving.host.dirs[1].path)
        code = moving.host.manager.move_requests.alter(name, path)
        assert code is ErrorCode.INVALID_TOPIC_EXCEPTION

    async def test_a_target_that_is_offline_full_or_cordoned(self, moving: Moving) -> None:
        await moving.lead(batches=1)
        moving.host.dirs[1].is_cordoned = True
        assert moving.alter(1) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert moving.alter(2) is ErrorCode.NONE
        assert moving.alter(0) is ErrorCode.NONE
        moving.fail(2)
        assert moving.alter(2) is ErrorCode.KAFKA_STORAGE_ERROR
        # Where it is it may stay.
        assert moving.alter(0) is ErrorCode.NONE

    async def test_an_offline_replica(self, moving: Moving) -> None:
        await moving.lead(batches=1)
        moving.fail()
        assert moving.alter(1) is ErrorCode.KAFKA_STORAGE_ERROR

    async def test_what_does_not_exist_yet_is_remembered(self, moving: Moving) -> None:
        assert moving.alter(2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await moving.lead(batches=1)
        assert moving.log.log_dir is moving.host.dirs[2]
        assert moving.asked == [2]

    async def test_a_replica_that_is_being_created_is_not_available(self, moving: Moving) -> None:
        moving.describe()
        assert moving.alter(1) is ErrorCode.REPLICA_NOT_AVAILABLE
        await moving.host.online()
