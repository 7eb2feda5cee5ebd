"""Compaction in a broker: what it does to a directory's logs, and what calls it off."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from broker.compaction.choice import damage_is_there
from broker.compaction.log_cleaner import LogCleaner
from broker.compaction.metrics import cleaner_metrics
from broker.compaction.settings import CleanerSettings
from broker.disk.condition.disk_space import DiskSpace
from broker.disk.directory.log_dir import LogDir
from broker.disk.upkeep.checkpoints import CheckpointWriter
from jbodlab.config.topic_keys import SEGMENT_BYTES
from jbodlab.record_batch.record_batch import build_batch, iterate_headers, iterate_records
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.compaction.compaction_plan import CleanerDiedError
from jbodlab.storage.directory import names
from jbodlab.storage.directory.checkpoints import read_offsets
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from tests.broker.compaction.here import Here
from tests.broker.disks import FaultPlan, fails
from tests.broker.logs import read_direct
from tests.broker.replicas import TP, change, partition_record, until
from tests.broker.stage import Stage
from tests.jbodlab.storage.log.direct_log import DirectLog

KEYS = 5
CLEANS = CleanerSettings(backoff_ms=5)


class Compacting(Stage):
    """A broker whose one replica is of a compacted topic, and its cleaner."""

    def __init__(self, root: Path, fs: FileSystem | None = None, **settings: object) -> None:
        super().__init__(root, fs=fs)
        self.compactors: list[Here] = []
        self.before_clean: Callable[[], object] = lambda: None
        self.error: BaseException | None = None
        self.fails_for: TopicPartition | None = None
        self.checkpoints = CheckpointWriter(
            self.host.log_dirs,
            self.host.manager,
            high_watermark_interval_ms=10**9,
            recovery_point_interval_ms=10**9,
            log_start_interval_ms=10**9,
            initial_delay_ms=10**9,
        )
        self.cleaner = LogCleaner(
            self.host.log_dirs,
            self.host.manager,
            self.checkpoints.write_cleaner_offsets,
            environment=replace(system_environment(), compactor=self._compactor),
            settings=replace(CleanerSettings(backoff_ms=5), **settings),  # type: ignore[arg-type]
        )
        self.host.log_dirs.add_failure_listener(self.cleaner)
        self.written: dict[bytes, bytes] = {}

    def _compactor(self) -> Here:
        self.compactors.append(Here())
        self.compactors[-1].before_clean = self.before_clean
        self.compactors[-1].error, self.compactors[-1].fails_for = self.error, self.fails_for
        return self.compactors[-1]

    @property
    def log_dir(self) -> LogDir:
        return self.log.log_dir

    async def fill_compacted(
        self, *, directory: int = 0, away: Sequence[int] = (), **settings: str
    ) -> None:
        """Create the replica, and fill it; followers that are away are not in the ISR."""
        compacts = {
            "cleanup_policy": "compact",
            "min_cleanable_dirty_ratio": "0.01",
            SEGMENT_BYTES: "1000",
        }
        await self.begin(
            1, *away, isr=[1], directory=self.host.directory(directory), **compacts | settings
        )
        await self.fill()

    async def fill(self, batches: int = 60, topic_partition: TopicPartition = TP) -> None:
        for number in range(batches):
            key, value = b"key %d" % (number % KEYS), b"%d" % number * 20
            data = build_batch([(key, value)], timestamp_ms=1_000)
            produced = await self.host.produced(data, topic_partition=topic_partition)
            assert produced.error_code == 0
            self.written[key] = value

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        found, offset = [], self.log.start_offset
        while data := read_direct(self.log, offset):
            for position, header in iterate_headers(data):
                found += [
                    (r.offset, r.key, r.value) for r in iterate_records(data, position, header)
                ]
                offset = header.next_offset
        return found

    def table(self) -> dict[bytes | None, bytes | None]:
        return {key: value for _, key, value in self.records()}

    def files(self, suffix: str) -> list[Path]:
        return [path for each in self.host.dirs for path in each.path.glob(f"*/*{suffix}")]

    def paused(self) -> list[float]:
        """Return how many logs of each directory are said to be paused."""
        (metric,) = (
            one
            for one in cleaner_metrics(self.cleaner, self.host.log_dirs, 0)
            if one.name == "jbodlab_log_cleaner_paused_partitions"
        )
        values = {labels["logDirectory"]: value for _, labels, value in metric.samples}
        return [values[str(log_dir.path)] for log_dir in self.host.dirs]

    def checkpoint(self, number: int = 0) -> dict[TopicPartition, int]:
        path = self.host.dirs[number].path / names.CLEANER_OFFSET_FILE
        return read_offsets(PosixFileSystem(), path)

    async def cleaned(self) -> None:
        """Return when nothing is dirty any more."""
        await until(lambda: self.log.state.disk.cleaned_to == self.log.state.active.base_offset)
        await until(lambda: self.checkpoint_of_log() == {TP: self.log.state.active.base_offset})

    async def moved(self) -> None:
        """Return when the replica is in directory 1; checkpoints follow."""
        await until(lambda: self.log_dir is self.host.dirs[1])
        for source, target in self.host.moved:
            self.checkpoints.write_all(target)
            self.checkpoints.write_all(source)

    def checkpoint_of_log(self) -> dict[TopicPartition, int]:
        return self.checkpoint(self.host.dirs.index(self.log_dir))

    async def stop(self) -> None:
        await self.cleaner.stop()
        await super().stop()


@pytest.fixture
def disk() -> FaultPlan:
    return FaultPlan()


@pytest.fixture
async def each(tmp_path: Path, disk: FaultPlan) -> AsyncIterator[Compacting]:
    async with Compacting(tmp_path, disk) as made:
        yield made


async def test_of_each_key_the_last_value_stays_and_the_checkpoint_says_up_to_where(
    each: Compacting,
) -> None:
    await each.fill_compacted()
    before = len(each.records())

    each.cleaner.start()
    await each.cleaned()

    assert each.table() == each.written
    assert len(each.records()) < before / 2
    assert each.files(".cleaned") == each.files(".swap") == []
    assert each.files(".deleted")
    await until(lambda: each.cleaner.stats[each.log_dir.path].rounds == 1)
    assert each.log.tail.read(0, 1 << 20, 60, at_least_one=True) is None
    await each.fill(30)
    await each.cleaned()
    assert each.table() == each.written


async def test_what_is_deleted_stays_deleted_for_a_replica_that_is_away(each: Compacting) -> None:
    """It would lead some day with the old value, and with nothing that takes it away."""
    each.cleaner.use(replace(CLEANS, is_enabled=False))

    def tombstones() -> list[bytes | None]:
        return [key for key, value in each.table().items() if value is None]

    async def next_round() -> None:
        """Clean up what the log has been filled with."""
        each.cleaner.use(replace(CLEANS, is_enabled=True))
        await each.cleaned()
        each.cleaner.use(replace(CLEANS, is_enabled=False))

    await each.fill_compacted(away=[2], delete_retention_ms="0")
    data = build_batch([(b"deleted", None)], timestamp_ms=1_000)
    assert (await each.host.produced(data)).error_code == 0
    each.cleaner.start()

    for _ in range(3):
        await each.fill(30)
        await next_round()
        assert tombstones() == [b"deleted"]

    await each.fill(30)
    each.apply(change(isr=(1, 2)))
    await next_round()
    assert not tombstones()


async def test_records_without_a_key_are_refused(each: Compacting) -> None:
    await each.fill_compacted()

    refused = await each.host.produced(build_batch([(None, b"v")], timestamp_ms=1_000))

    assert refused.error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup_policy": "delete"},
        {"min_cleanable_dirty_ratio": "1"},
        {"min_compaction_lag_ms": "9000000000000"},
    ],
    ids=str,
)
async def test_what_is_not_due_is_left_alone(settings, each: Compacting) -> None:
    await each.fill_compacted(**settings)
    before = each.records()

    each.cleaner.start()
    await until(lambda: each.cleaner.stats[each.log_dir.path].looked_ms is not None)
    await asyncio.sleep(0.05)

    assert each.records() == before
    assert not any(each.rounds for each in each.compactors)


async def test_what_has_waited_too_long_is_compacted_whatever_part_it_is(each: Compacting) -> None:
    await each.fill_compacted(min_cleanable_dirty_ratio="1", max_compaction_lag_ms="60000")

    each.cleaner.start()
    await each.cleaned()

    assert each.table() == each.written


async def test_a_disabled_cleaner_does_nothing_until_it_is_enabled(each: Compacting) -> None:
    each.cleaner.use(replace(CLEANS, is_enabled=False))
    await each.fill_compacted()
    each.cleaner.start()
    await asyncio.sleep(0.03)
    assert not any(one.rounds for one in each.compactors)

    each.cleaner.use(CleanerSettings(backoff_ms=5))
    await each.cleaned()


async def test_rounds_share_the_rate_while_they_run(each: Compacting) -> None:
    other = TopicPartition(TP.topic, 1)
    settings = CleanerSettings(backoff_ms=5, bytes_per_second=1e9)

    each.cleaner.use(replace(CLEANS, is_enabled=False))
    await each.fill_compacted()
    each.apply(partition_record([1], [each.host.directory(1)], index=1))
    await each.host.online(other)
    await each.fill(60, other)
    each.cleaner.start()
    await until(lambda: len(each.compactors) == 2)
    gates = [threading.Event(), threading.Event()]
    for gate, compactor in zip(gates, each.compactors, strict=True):
        compactor.before_clean = gate.wait

    def rates() -> list[float | None]:
        return [compactor.rate.bytes_per_second for compactor in each.compactors]

    each.cleaner.use(settings)
    await until(lambda: rates() == [5e8, 5e8])
    each.cleaner.use(replace(settings, bytes_per_second=6e8))
    assert rates() == [3e8, 3e8]
    # Else the first one would begin again.
    each.cleaner.use(replace(settings, bytes_per_second=6e8, is_enabled=False))
    gates[0].set()
    await until(lambda: rates()[1] == 6e8)
    gates[1].set()


async def test_a_full_directory_is_cleaned_only_where_the_result_fits(each: Compacting) -> None:
    await each.fill_compacted()
    each.log_dir.space.disk = DiskSpace(1 << 20)
    each.log_dir.space.disk.looked(1 << 30, 500)
    each.cleaner.start()
    await asyncio.sleep(0.03)
    assert not any(one.rounds for one in each.compactors)
    assert each.log_dir.space.disk.is_full

    each.log_dir.space.disk.looked(1 << 30, 5_000)
    await each.cleaned()

    assert each.log_dir.space.disk.is_full


@pytest.mark.parametrize("at", [80, 100], ids=["a record", "an offset"])
async def test_a_log_with_a_damaged_batch_is_left_alone_and_counted(at, each: Compacting) -> None:
    await each.fill_compacted()
    await each.log.barrier()
    path = each.log.files.path(0)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)

    each.cleaner.start()
    await until(lambda: each.log.cleaning.is_uncleanable)
    await until(lambda: not each.log.cleaning.is_running)

    (found,) = each.cleaner.cleanable(each.log_dir)
    assert found.dirty.cleanable_bytes > 0
    assert path.read_bytes() == data
    assert each.log_dir.is_online


def damage(each: Compacting, base_offset: int, batch: int) -> None:
    """Change a record of a batch of a segment."""
    path = each.log.files.path(base_offset)
    data = bytearray(path.read_bytes())
    position, header = list(iterate_headers(bytes(data)))[batch]
    data[position + header.size - 5] ^= 1
    path.write_bytes(data)


async def meet_damage(each: Compacting, base_offset: int, batch: int) -> None:
    """Damage a log, and return when a round has met that."""
    await each.fill_compacted()
    await each.log.barrier()
    damage(each, base_offset, batch)
    each.cleaner.start()
    await until(lambda: each.log.cleaning.is_uncleanable)
    await until(lambda: not each.log.cleaning.is_running)


@pytest.mark.parametrize("whole", [True, False], ids=["a segment", "a batch"])
async def test_a_log_whose_damage_was_deleted_is_compacted_again(whole, each: Compacting) -> None:
    await meet_damage(each, 0, 2)
    second = each.log.state.segments.base_offsets[1]
    assert second > 4
    each.written = {}
    each.log.advance_start_to(second if whole else 3)
    each.log.drop_below(each.log.start_offset, 0)
    await each.fill(10)

    await each.cleaned()

    assert not each.log.cleaning.is_uncleanable
    assert each.table() == each.written


async def test_a_log_whose_damage_was_cut_away_is_compacted_again(each: Compacting) -> None:
    await meet_damage(each, 0, 2)
    await each.log.truncate(1, committed=60)
    await each.fill(60)

    await each.cleaned()

    assert not each.log.cleaning.is_uncleanable

    async def begin_and_cut(each: Compacting) -> None:
        await meet_damage(each, 0, 2)
        await each.log.truncate(1, committed=60)


async def test_damage_is_looked_for_anew_where_the_log_is_in_other_files(each: Compacting) -> None:
    each.cleaner.use(replace(CLEANS, is_enabled=False))
    await each.fill_compacted()
    is_there = damage_is_there(each.log, 0)
    assert is_there()

    files, each.log.files = each.log.files, None
    assert not is_there()
    each.log.files = files


@pytest.mark.parametrize(
    "error",
    [CleanerDiedError("status -9"), OSError(errno.EMFILE, "no file"), MemoryError()],
    ids=["dead", "descriptors", "memory"],
)
async def test_a_log_whose_rounds_fail_keeps_no_other_from_being_compacted(
    caplog, error, each: Compacting
) -> None:
    other = TopicPartition(TP.topic, 1)

    await each.fill_compacted()
    each.apply(partition_record([1], [each.host.directory(0)], index=1))
    partition = await each.host.online(other)
    await each.fill(20, other)
    each.fails_for, each.error = TP, error
    each.cleaner.start()

    await until(lambda: partition.log.state.disk.cleaned_to is not None)
    await until(lambda: each.log.cleaning.failures > 2)

    stats = each.cleaner.stats[each.log_dir.path]
    assert stats.failures > 2
    said = [one for one in caplog.records if "retried after" in one.message]
    assert sum(one.levelname == "WARNING" for one in said) == 1
    for one in each.compactors:
        one.error = None
    await until(lambda: each.log.state.disk.cleaned_to is not None)
    await until(lambda: each.log.cleaning.failures == 0)


class Hang:
    """Stops the compactors in front of a step until it is told to go on."""

    def __init__(self, each: Compacting) -> None:
        self.reached, self.resume = threading.Event(), threading.Event()
        each.before_clean = self.stop

    def stop(self) -> None:
        self.reached.set()
        assert self.resume.wait(20)


async def in_the_middle(each: Compacting) -> Hang:
    """Begin a round and return when it is about to write."""
    await each.fill_compacted()
    hang = Hang(each)
    each.cleaner.start()
    await until(hang.reached.is_set)
    return hang


async def test_a_cut_in_a_round_calls_it_off(each: Compacting) -> None:
    hang = await in_the_middle(each)
    records = each.records()

    cut = asyncio.ensure_future(each.log.truncate(10, committed=60))
    await until(lambda: not each.log.cleaning.is_wanted)
    assert not cut.done()
    # The next round would come at once.
    each.log.cleaning.mark_damaged(lambda: True)
    hang.resume.set()

    assert await cut
    await each.log.barrier()
    await until(lambda: not each.log.cleaning.is_running)
    assert each.records() == records[:10]
    assert each.files(".swap") == each.files(".cleaned") == []


async def test_compact_and_move(each: Compacting) -> None:
    """A move calls the round off; its checkpoint entry is in one directory's file in the end."""
    hang = await in_the_middle(each)
    each.host.assignments.accepts = True
    each.log.state.disk.cleaned_to = 7
    await each.checkpoints.write_cleaner_offsets(each.log_dir)
    assert each.checkpoint(0) == {TP: 7}
    each.host.manager.moves.start(each.partition, each.host.dirs[1])
    await until(lambda: not each.log.cleaning.is_wanted)
    hang.resume.set()

    await each.moved()
    await each.cleaned()

    assert each.table() == each.written
    await until(lambda: TP not in each.checkpoint(0))
    assert each.files(".cleaned") == []


async def test_a_compacted_log_moves_with_its_gaps(each: Compacting) -> None:
    await each.fill_compacted()
    each.host.assignments.accepts = True
    each.cleaner.start()
    await each.cleaned()
    records = each.records()
    entry = each.checkpoint(0)

    each.host.manager.moves.start(each.partition, each.host.dirs[1])
    await each.moved()

    await until(lambda: each.checkpoint(1) == entry and not each.checkpoint(0))
    assert each.records() == records
    await each.log.barrier()
    reopened(each.log.files.directory, each.written)


async def test_neither_a_round_nor_a_cut_that_waits_for_its_end_stands_behind_upkeep(
    each: Compacting,
) -> None:
    over = threading.Event()
    hang = await in_the_middle(each)
    log = each.log
    each.log_dir.upkeep(lambda: over.wait(20))
    await until(lambda: each.log_dir.queues["upkeep"].running_call)
    cut = asyncio.ensure_future(log.truncate(log.end_offset - 1, committed=log.end_offset))
    hang.resume.set()

    assert await cut

    assert each.log_dir.queues["upkeep"].running_call
    assert not each.files(".cleaned")
    over.set()


async def test_no_round_begins_while_a_move_is_under_way(each: Compacting) -> None:
    await each.fill_compacted()
    each.host.manager.moves.start(each.partition, each.host.dirs[1])
    move = each.host.manager.moves.move_of(TP)
    assert move is not None
    await until(lambda: bool(each.host.assignments.callbacks))

    each.cleaner.start()
    await asyncio.sleep(0.03)
    assert not any(one.rounds for one in each.compactors)
    assert each.paused() == [1, 0]

    each.host.manager.moves.cancel(TP)
    await each.cleaned()
    assert each.paused() == [0, 0]


async def test_a_deleted_log_is_not_cleaned_on(each: Compacting) -> None:
    hang = await in_the_middle(each)
    log, partition = each.log, each.partition

    each.host.manager.placement.delete(TP, log)
    partition.delete(None)
    each.host.registry.remove(TP)
    hang.resume.set()
    await until(lambda: not log.cleaning.is_running)

    assert each.host.dirs[0].is_online


@pytest.mark.parametrize(
    ("operation", "ending"),
    [
        ("open_source", ".log"),
        ("open_append", ".cleaned"),
        ("write_bytes", ".timeindex.cleaned"),
        ("rename", ".log.cleaned"),
        ("rename", ".index.cleaned"),
        ("rename", "000.log"),
        ("rename", ".log.swap"),
        ("rename", ".timeindex.swap"),
    ],
)
async def test_compact_disk_dies(operation, ending, each: Compacting, disk: FaultPlan) -> None:
    """Whatever fails takes its directory offline once, and what lies there still tells all."""
    await each.fill_compacted()
    log_dir, log, end = each.log_dir, each.log, each.log.end_offset
    await log.barrier()
    disk.plan[operation] = fails(errno.EIO, ending)

    each.cleaner.start()
    await until(lambda: not log_dir.is_online)
    await until(lambda: not log.cleaning.is_running)

    assert each.host.dirs[1].is_online
    looked = each.cleaner.stats[each.host.dirs[1].path].looked_ms
    assert looked is not None
    disk.plan.clear()
    found = reopened(log.files.directory, each.written)
    assert found.log_end_offset == end


@pytest.mark.parametrize(
    ("operation", "ending"),
    [
        ("open_append", ".cleaned"),
        ("write_bytes", ".index.cleaned"),
        ("rename", ".log.cleaned"),
        ("rename", ".timeindex.cleaned"),
        ("rename", "000.log"),
        ("rename", ".index.swap"),
    ],
)
async def test_a_disk_without_room_ends_the_round_and_the_next_one_does_it(
    operation, ending, each: Compacting, disk: FaultPlan
) -> None:
    await each.fill_compacted()
    await each.log.barrier()
    disk.plan[operation] = fails(errno.ENOSPC, ending)

    each.cleaner.start()
    await until(lambda: each.log_dir.space.disk.denial is not None)
    disk.plan.clear()
    each.log_dir.space.written(system_environment().monotonic_s() + 1_000)
    each.log_dir.space.disk.looked(1 << 40, 1 << 39)

    await until(lambda: not each.log.is_blocked)
    await each.cleaned()
    assert each.log_dir.is_online
    assert each.table() == each.written
    assert each.files(".swap") == each.files(".cleaned") == []


def reopened(folder: Path, table: dict[bytes, bytes]) -> Any:
    """Load what lies on a disk, as a revival does; check what it tells."""
    log = DirectLog.load(
        PosixFileSystem(), folder, LogConfig(cleanup_policy="compact", segment_bytes=1_000)
    )
    found, offset = {}, 0
    while data := log.read(offset, 1 << 20):
        for position, header in iterate_headers(data):
            found |= {r.key: r.value for r in iterate_records(data, position, header)}
            offset = header.next_offset
    assert found == table
    assert not list(folder.glob("*.damaged"))
    log.abandon()
    return log
