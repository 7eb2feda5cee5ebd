"""The log of one replica: its state on the event loop, its files on the directory's threads.

This module is the only owner of the `LogState`. A change of the state is complete at once, and its
instructions go to the serving queue in the order of the changes (`directory_writer`). So there are
two ends:

* `end_offset`: where the next batch goes; it includes batches that are not written yet;
* `written_end`: what the disk has confirmed. Nobody ever sees records beyond it.

A truncation is a change like any other, at its place in the order. Its position must first be found
in the file. If the task is cancelled, or the role of the replica changes, before that, nothing is
truncated. Nor is anything truncated while a change waits for space on the disk (`carrying_out`). If
an instruction fails in another way, the state is wrong, and the replica goes offline.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from broker.disk.calls import fsync_or_fail
from broker.disk.directory import LogCleaning, LogDir
from broker.replica.log.carrying_out import LogChange, require_complete
from broker.replica.log.cuts import about_to_cut, find_cut
from broker.replica.log.directory_writer import DirectoryWriter
from broker.replica.log.tail_cache import EMPTY_SLICE, Slice, TailCache, TailCacheBudget
from jbodlab.record_batch.record_batch import BatchHeader
from jbodlab.storage.compaction.compaction_plan import CleanedSegment
from jbodlab.storage.log.instructions import (
    Instruction,
    Instructions,
    SetAside,
    SyncRequest,
    WriteEpochs,
)
from jbodlab.storage.log.leader_epochs import LeaderEpochs
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_search import first_record_at, newest_record
from jbodlab.storage.log.log_state import NO_MARKERS
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.storage.log.segment_ranges import CutPoint
from jbodlab.storage.log.segments import ClosedSegment
from jbodlab.storage.log.transactions import Marker, aborted_between, read_marker
from jbodlab.vocabulary.ids import TopicPartition

T = TypeVar("T")

STAMPED_SIZE = 16
"""Bytes at the start of a batch that the broker writes over."""


class PartitionLog:
    """A replica's log and its directory; all methods on the event loop.

    Attributes:
        on_written: Called when `written_end` moved, once for all that a call to the disk wrote.
        on_failed: Called once when a change failed, whether by its disk or otherwise.
        on_blocked: Called when the disk had no room for a change of the log.
    """

    def __init__(self, loaded: LoadedLog, writer: DirectoryWriter, budget: TailCacheBudget) -> None:
        self.state = loaded.state
        self.files = loaded.files
        self.writer = writer
        self.tail = TailCache(budget)
        self.failed = False
        self.cleaning = LogCleaning()
        self.on_written: Callable[[], None] = _nothing
        self.on_failed: Callable[[BaseException], None] = _ignore
        self.on_blocked: Callable[[], None] = _nothing
        self.written_end = loaded.state.end_offset
        self._is_news = False
        """Whether `written_end` moved and nobody was told yet."""
        self._on_its_way: deque[int] = deque()
        """Where the log ends after each change that is not carried out yet."""
        self._idle: list[asyncio.Future[None]] = []
        self._held: asyncio.Event | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose log it is."""
        return self.files.topic_partition

    @property
    def log_dir(self) -> LogDir:
        """The directory that holds the log."""
        return self.writer.log_dir

    @property
    def start_offset(self) -> int:
        """Offset of the first record."""
        return self.state.start_offset

    @property
    def end_offset(self) -> int:
        """Where the next batch goes."""
        return self.state.segments.active.next_offset

    @property
    def lost_range(self) -> tuple[int, int] | None:
        """First and last of the offsets that the disk lost at the beginning, if it did."""
        return self.state.lost_range

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs."""
        return self.state.epochs

    @property
    def producers(self) -> ProducerState:
        """The idempotent producers."""
        return self.state.producers

    @property
    def config(self) -> LogConfig:
        """The settings in force."""
        return self.state.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self.state.configure(config)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is on its way to the disk."""
        return not self._on_its_way

    @property
    def is_blocked(self) -> bool:
        """Whether the disk had no room for something that is on its way, which waits for it."""
        return self.writer.is_blocked(self.files)

    # Changes

    def append_as_leader(
        self,
        data: bytes | memoryview,
        header: BatchHeader,
        leader_epoch: int,
        *,
        is_last: bool = False,
    ) -> BatchHeader:
        """Give a batch the next offsets and send it to the disk.

        Args:
            data: The batch.
            header: Its header.
            leader_epoch: Epoch of the leader.
            is_last: See `DirectoryWriter.submit`.

        Returns:
            Its header as stored.
        """
        state = self.state
        base_offset = state.segments.active.next_offset
        stored, head = header.stamped(base_offset, leader_epoch)
        buffers = (head, memoryview(data)[STAMPED_SIZE:])
        size = stored.size
        marker = read_marker(data, 0, header) if header.is_control else None
        markers = NO_MARKERS if marker is None else {base_offset: marker}
        instructions = state.append(buffers, (stored,), markers)
        self.tail.append(base_offset, stored.next_offset, size, buffers)
        self.change(instructions, size, self.state.due_sync(), is_last=is_last)
        return stored

    def append_as_follower(
        self,
        data: bytes | memoryview,
        headers: Sequence[BatchHeader],
        markers: Mapping[int, Marker] = NO_MARKERS,
        *,
        is_last: bool = False,
    ) -> None:
        """Send batches of the leader to the disk as they are; none begins before the end."""
        instructions = self.state.append((data,), headers, markers)
        self.change(instructions, len(data), self.state.due_sync(), is_last=is_last)

    def assign_epoch(self, leader_epoch: int) -> None:
        """Begin a leader epoch at the end of the log."""
        self.change(self.state.assign_epoch(leader_epoch))

    async def truncate(
        self, offset: int, *, committed: int = 0, is_wanted: Callable[[], bool] = lambda: True
    ) -> bool:
        """Cut the log at an offset.

        Args:
            offset: The new end; where the batch begins that contains it.
            committed: The high watermark; 0 for a log that no checkpoint names.
            is_wanted: Asked when the place of the cut is known: whether it is still to be made.

        Returns:
            Whether it was made; in the same step in which that was asked.

        Raises:
            WaitsForRoomError: what is to be cut is not all on the disk.
        """
        async with self._about_to_cut(offset, committed):
            while True:
                await self._released()
                point: CutPoint | None = None
                request = self.state.cut_request(offset)
                if request is not None:
                    point = await find_cut(self.files, self.writer, request)
                if self.failed or not is_wanted():
                    return False
                if self._held is None and (
                    request is None or request.cut_count == self.state.disk.cut_count
                ):
                    break
            self.tail.clear()
            if point is not None:
                self._cut(self.state.truncate(point))
            elif offset < self.end_offset:
                self._cut(self.state.restart_at(offset))
            else:
                self.change(self.state.truncate_epochs(offset))
            return True

    async def restart_at(
        self, offset: int, *, committed: int = 0, is_wanted: Callable[[], bool] = lambda: True
    ) -> bool:
        """Drop everything and go on at an offset; as `truncate`."""
        async with self._about_to_cut(offset, committed):
            await self._released()
            if not is_wanted():
                return False
            self.tail.clear()
            self._cut(self.state.restart_at(offset))
            return True

    def advance_start_to(self, offset: int) -> None:
        """Give up what lies below an offset."""
        self.change(self.state.advance_start(offset))

    def retain(self, now_ms: int, high_watermark: int) -> bool:
        """Let the log begin behind what is old; returns whether it begins later now."""
        if self.failed or self.is_held or self.cleaning.is_running:
            return False
        before = self.start_offset
        self.change(self.state.retain(now_ms, high_watermark))
        return self.start_offset != before

    def drop_below(self, offset: int, now_ms: int) -> None:
        """Drop the segments below an offset, which is a log start that is on the disk."""
        if not (self.failed or self.is_held or self.cleaning.is_running):
            self.change(self.state.drop_below(offset, now_ms))

    def replace(
        self, former: Sequence[ClosedSegment], cleaned: Sequence[CleanedSegment], now_ms: int
    ) -> asyncio.Future[None]:
        """Put what compaction has left of segments in their place."""
        # Replaced batches must not be read from memory: the index may not know of them as aborted.
        self.tail.clear()
        self.change(self.state.replace(former, cleaned, now_ms))
        # A reader from here on looks for the new segments: nothing may come between.
        return self.barrier()

    def change(
        self,
        instructions: Instructions,
        size: int = 0,
        sync: SyncRequest | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        """Have instructions carried out that a change of the state has returned."""
        if not instructions:
            return
        self._on_its_way.append(self.state.segments.active.next_offset)
        done = self._carried_out if sync is None else partial(self._synced, sync)
        self.writer.submit(
            LogChange(self.files, instructions, size, sync, done, self._tell, self._blocked),
            is_last=is_last,
        )

    # Syncs

    def sync(self, request: SyncRequest) -> asyncio.Future[None]:
        """Have something synced by the upkeep; the recovery point follows.

        The range must have been written; if that waits the future gets `WaitsForRoomError`.
        """
        files, log_dir = self.files, self.log_dir
        work = partial(files.sync, log_dir.upkeep_fs, request)
        future = log_dir.upkeep(partial(require_complete, files, partial(fsync_or_fail, work)))

        def done(done: asyncio.Future[None]) -> None:
            if self.files is not files:
                # The log is in another directory by now.
                return
            if done.cancelled() or done.exception() is not None:
                self.state.disk.not_synced(request)
            else:
                self.state.synced(request)

        future.add_done_callback(done)
        return future

    def barrier(self) -> asyncio.Future[None]:
        """Return a future of when all that was asked for in its directory so far had its turn."""
        return self.writer.run(_nothing)

    def close(self) -> Instructions:
        """Nothing is done with it any more; returns what is left to do to its files."""
        return () if self.files.is_future else self.state.close()

    # Reading

    def read(
        self, offset: int, max_bytes: int, max_offset: int, *, at_least_one: bool
    ) -> Slice | asyncio.Future[bytes]:
        """Read whole batches from the one that contains `offset`, none beyond `max_offset`.

        A read from memory returns at once; else a future of the directory's thread.
        """
        if offset >= max_offset:
            return EMPTY_SLICE
        found = self.tail.read(offset, max_bytes, max_offset, at_least_one=at_least_one)
        if found is not None:
            return found
        return self.log_dir.run(
            partial(
                self.files.read,
                self.state.segments.ranges(offset),
                offset,
                max_bytes,
                max_offset,
                at_least_one=at_least_one,
                read_ahead=self.state.config.index_interval_bytes,
            )
        )

    def available(self, offset: int, max_offset: int, enough: int) -> int:
        """Return about how many bytes can be read, counting no further than `enough`."""
        if offset >= max_offset:
            return 0
        found = self.tail.available(offset, max_offset, enough)
        # Records outside memory are most often many; the exact size would cost a look at the disk.
        return enough if found is None else found

    def offset_for_timestamp(self, timestamp: int) -> asyncio.Future[tuple[int, int] | None]:
        """Find timestamp and offset of the first record with a timestamp or a larger one."""
        ranges = self.state.segments.ranges_by_time(timestamp)
        return self.writer.run(
            partial(first_record_at, self.files, ranges, timestamp, self.start_offset)
        )

    def newest_record(self, end: int) -> asyncio.Future[tuple[int, int] | None]:
        """Find timestamp and offset of the newest record before an offset."""
        start = self.start_offset
        ranges = self.state.segments.ranges_by_newest(start, end)
        return self.writer.run(partial(newest_record, self.files, ranges, start, end))

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return below which offset all transactions are decided."""
        return self.state.last_stable_offset(high_watermark)

    async def aborted_between(self, offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Return the aborted transactions with records in a range, by their first offsets.

        Returns:
            Producer id and first offset of each.
        """
        bases = self.state.segments.aborted_from(offset)
        found = aborted_between(self.state.active.aborted, offset, end_offset)
        if bases:
            find = partial(self.files.aborted, bases, offset, end_offset)
            found = [*await self.writer.run(find), *found]
        found.sort(key=lambda each: each.first_offset)
        return [(each.producer_id, each.first_offset) for each in found]

    # Moves between directories

    @property
    def is_held(self) -> bool:
        """Whether nothing may begin to cut or drop anything; see `hold`."""
        return self._held is not None

    def hold(self) -> None:
        """Let nothing begin to cut or drop anything, until `release`.

        Appends are the caller's business. For a swap of directories: the log does not change
        between the last look at it and that.
        """
        assert not self.is_held
        self._held = asyncio.Event()

    def release(self) -> None:
        """Let changes go on."""
        held, self._held = self._held, None
        if held is not None:
            held.set()

    def move_to(self, copy: PartitionLog) -> None:
        """Go on with an identical log in another directory; nothing is on its way to the old one.

        Epochs and log start are brought up to the changes since the copy was made.
        """
        assert self.is_settled
        assert copy.is_settled
        assert self.end_offset == copy.end_offset
        assert self.state.active.base_offset == copy.state.active.base_offset
        first = self.state.segments.base_offsets[0]
        changes: list[Instruction] = [
            SetAside(base) for base in copy.state.segments.base_offsets if base < first
        ]
        changes.append(WriteEpochs(self.epochs.entries))
        self.state.moved_to(copy.state)
        self.files, self.writer = copy.files, copy.writer
        self.change(tuple(changes))

    # Waiting

    async def written(self) -> None:
        """Return when nothing is on its way to the disk, or it waits for room, or all is lost."""
        while self._on_its_way and not self.failed and not self.is_blocked:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future

    def fail(self) -> None:
        """The log is lost; whoever waits for it is released."""
        self.failed = True
        self.cleaning.abort()
        self.tail.clear()
        self._release()
        self.release()
        self.writer.give_up(self.files)

    # Inside

    async def _released(self) -> None:
        while self._held is not None:
            await self._held.wait()

    def _about_to_cut(
        self, offset: int, committed: int
    ) -> contextlib.AbstractAsyncContextManager[None]:
        return about_to_cut(self.state, self.files, self.writer, self.cleaning, offset, committed)

    def _cut(self, instructions: Instructions) -> None:
        end_offset = self.end_offset
        self.written_end = min(self.written_end, end_offset)
        self._on_its_way = deque(min(each, end_offset) for each in self._on_its_way)
        self.change(instructions)

    def _synced(self, request: SyncRequest, error: BaseException | None) -> None:
        if error is None:
            self.state.synced(request)
        self._carried_out(error)

    def _carried_out(self, error: BaseException | None) -> None:
        if error is not None and not self.failed:
            # Changes that were written before the failed one are told first.
            self._tell()
            self.fail()
            self.on_failed(error)
        end_offset = self._on_its_way.popleft()
        if self.failed:
            return
        if end_offset != self.written_end:
            self.written_end, self._is_news = end_offset, True
        if self._idle and not self._on_its_way:
            self._release()

    def _tell(self) -> None:
        if self._is_news and not self.failed:
            self._is_news = False
            self.on_written()

    def _blocked(self) -> None:
        self._release()
        if self.failed:
            self.writer.give_up(self.files)
        else:
            self.on_blocked()

    def _release(self) -> None:
        waiting, self._idle = self._idle, []
        for future in [each for each in waiting if not each.done()]:
            future.set_result(None)


def _nothing() -> None:
    pass


def _ignore(error: BaseException) -> None:
    del error
