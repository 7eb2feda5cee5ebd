"""The log of one replica as the event loop sees it: offsets now, files later.

`jbodlab.log.ReplicaLog` belongs to its directory's thread. What decisions need of it lives here in
copies that run ahead of the files: an append gets its offsets at once, in the order of the calls,
and is written afterwards. Hence two ends:

* `end_offset`: where the next batch goes; counts what is still on its way to the disk;
* `written_end`: what the disk has confirmed. Nothing beyond is ever shown to anyone.

Leader epochs and producer sequences likewise count what is on its way, so that the next batch of a
producer is checked against the one before it although that is not written yet. If a write fails,
the copies are wrong; therefore the replica is offline from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from broker.logdirs.condition import space_text
from broker.logdirs.log_dir import LogDir
from broker.replication.directory_writer import Append, DirectoryWriter
from broker.replication.tail_cache import EMPTY_SLICE, Slice, TailCache, TailCacheBudget
from jbodlab.error_code import ErrorCode
from jbodlab.errors import KafkaError
from jbodlab.log.leader_epochs import LeaderEpochs
from jbodlab.log.producer_state import ProducerState
from jbodlab.log.replica_log import ReplicaLog
from jbodlab.protocol.record_batch import BatchHeader, stamped_head

T = TypeVar("T")

STAMPED_SIZE = 16
"""Bytes at the start of a batch that the broker writes over."""


class LogState(NamedTuple):
    """What the loop keeps in copy, read on the directory's thread."""

    start_offset: int
    end_offset: int
    epochs: LeaderEpochs
    producers: ProducerState


def read_state(log: ReplicaLog) -> LogState:
    """Copy the state of a log; call it on its directory's thread, or before anybody uses it."""
    return LogState(
        log.log_start_offset, log.log_end_offset, log.epochs.copy(), log.producers.copy()
    )


class PartitionLog:
    """A replica's log and its directory; all methods on the event loop.

    Attributes:
        on_written: Called when `written_end` moved.
        on_failed: Called once when a write failed, whether by its disk or otherwise.
    """

    def __init__(self, log: ReplicaLog, writer: DirectoryWriter, budget: TailCacheBudget) -> None:
        self.log = log
        self.writer = writer
        self.tail = TailCache(budget)
        self.failed = False
        self.on_written: Callable[[], None] = _nothing
        self.on_failed: Callable[[BaseException], None] = _ignore
        self._idle: list[asyncio.Future[None]] = []
        self._changing = 0
        self._held: asyncio.Event | None = None
        state = read_state(log)
        self.start_offset = state.start_offset
        self.end_offset = self.written_end = state.end_offset
        self.epochs = state.epochs
        self.producers = state.producers

    @property
    def log_dir(self) -> LogDir:
        """The directory that holds the log."""
        return self.writer.log_dir

    def check_room(self, size_bytes: int) -> None:
        """Check that records of this size may still be written to the directory.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, it is full; clients try again, elsewhere if they can.
        """
        if not self.has_room(size_bytes):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"log directory {self.log_dir.path} is full: {space_text(self.log_dir.space.disk)}",
            )

    def has_room(self, size_bytes: int) -> bool:
        """Return whether records of this size may be written; if not, the directory is FULL."""
        return self.log_dir.space.takes(size_bytes)

    def append_as_leader(
        self, data: bytes | memoryview, header: BatchHeader, leader_epoch: int
    ) -> BatchHeader:
        """Give a batch the next offsets and send it to the disk; returns its header as stored."""
        base_offset = self.end_offset
        head = stamped_head(header, base_offset, leader_epoch)
        stored = BatchHeader(
            base_offset,
            header.batch_length,
            leader_epoch,
            header.magic,
            header.crc,
            header.attributes,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.records_count,
        )
        buffers = (head, memoryview(data)[STAMPED_SIZE:])
        if stored.producer_id >= 0:
            self.producers.update(stored)
        self.end_offset = stored.next_offset
        self.tail.append(base_offset, stored.next_offset, stored.size, buffers)
        self._send(buffers, (stored,), stored.size)
        return stored

    def append_as_follower(self, data: bytes | memoryview, headers: Sequence[BatchHeader]) -> None:
        """Send batches of the leader to the disk as they are; the first must fit the end."""
        assert headers[0].base_offset == self.end_offset
        for header in headers:
            if header.partition_leader_epoch > self.epochs.latest_epoch:
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self.producers.update(header)
        self.end_offset = headers[-1].next_offset
        self._send((data,), headers, len(data))

    def assign_epoch(self, leader_epoch: int) -> None:
        """Begin a leader epoch at the end of the log."""
        start_offset = self.end_offset
        self.epochs.assign(leader_epoch, start_offset)
        future = self.writer.run(partial(self.log.assign_epoch, leader_epoch, start_offset))
        future.add_done_callback(self._epoch_assigned)

    def read(
        self, offset: int, max_bytes: int, max_offset: int, *, at_least_one: bool
    ) -> Slice | asyncio.Future[bytes]:
        """Read whole batches from the one that contains `offset`, none beyond `max_offset`.

        What is in memory is returned at once; else a future of the directory's thread.
        """
        if offset >= max_offset:
            return EMPTY_SLICE
        found = self.tail.read(offset, max_bytes, max_offset, at_least_one=at_least_one)
        if found is not None:
            return found
        return self.log_dir.run(partial(self.log.read, offset, max_bytes, max_offset, at_least_one))

    def available(self, offset: int, max_offset: int, enough: int) -> int:
        """Return about how many bytes can be read, counting no further than `enough`."""
        if offset >= max_offset:
            return 0
        found = self.tail.available(offset, max_offset, enough)
        # What is not in memory is most often much; the exact size would cost a look at the disk.
        return enough if found is None else found

    async def truncate(self, offset: int) -> None:
        """Cut the log at an offset; nothing may be on its way to the disk."""
        await self._change(lambda log: log.truncate_to(offset))

    async def restart_at(self, offset: int) -> None:
        """Drop everything and go on at an offset; nothing may be on its way to the disk."""
        await self._change(lambda log: log.truncate_fully_to(offset))

    async def advance_start_to(self, offset: int) -> None:
        """Give up what lies below an offset."""
        await self._begin_change()
        try:
            await self.writer.run(partial(self.log.advance_start_to, offset))
        finally:
            self._changing -= 1
        self.start_moved(offset)

    def hold(self) -> None:
        """Let nothing begin to change the log, until `release`; appends are the caller's business.

        For a swap of directories: the log does not change between the last look at it and that.
        """
        assert self._held is None
        self._held = asyncio.Event()

    def release(self) -> None:
        """Let changes go on."""
        held, self._held = self._held, None
        if held is not None:
            held.set()

    async def settled(self) -> None:
        """Return when nothing is on its way to the disk and nothing is being changed."""
        await self.written()
        while self._changing:  # noqa: ASYNC110 - rare, and soon over
            await asyncio.sleep(0.001)

    def move_to(self, log: ReplicaLog, writer: DirectoryWriter) -> None:
        """Go on with an identical log in another directory; nothing is on its way to the old one.

        What happened to epochs and log start since the copy was made is made up for.
        """
        assert self.written_end == self.end_offset == log.log_end_offset
        latest = log.epochs.latest_epoch
        for epoch, start_offset in self.epochs.entries:
            if epoch > latest:
                assigned = writer.run(partial(log.assign_epoch, epoch, start_offset))
                assigned.add_done_callback(self._epoch_assigned)
        if self.start_offset > log.log_start_offset:
            advanced = writer.run(partial(log.advance_start_to, self.start_offset))
            advanced.add_done_callback(_drop_error)
        log.config = self.log.config
        self.log, self.writer = log, writer

    def start_moved(self, offset: int) -> None:
        """Take notice that the log begins at a later offset now."""
        # The rest of the state is not taken over: appends may have gone on meanwhile.
        self.start_offset = max(self.start_offset, offset)
        self.epochs.truncate_from(self.start_offset)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were silent too long, here and in the log itself."""
        self.producers.expire(now_ms, expiration_ms)
        future = self.writer.run(partial(self.log.producers.expire, now_ms, expiration_ms))
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception())

    async def written(self) -> None:
        """Return when nothing is on its way to the disk, or the log has failed."""
        while self.written_end != self.end_offset and not self.failed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(future)
            await future

    def fail(self) -> None:
        """The log is lost; whoever waits for writes is released."""
        self.failed = True
        self.tail.clear()
        self._release()
        self.release()

    async def _change(self, change: Callable[[ReplicaLog], object]) -> None:
        await self._begin_change()
        try:
            assert self.written_end == self.end_offset
            self.tail.clear()
            log = self.log

            def on_thread() -> LogState:
                change(log)
                return read_state(log)

            self._adopt(await self.writer.run(on_thread))
        finally:
            self._changing -= 1

    async def _begin_change(self) -> None:
        while self._held is not None:
            await self._held.wait()
        self._changing += 1

    def _adopt(self, state: LogState) -> None:
        """Take over what the thread found; nothing was on its way meanwhile."""
        self.start_offset = state.start_offset
        self.end_offset = self.written_end = state.end_offset
        self.epochs = state.epochs
        self.producers = state.producers

    def _send(
        self, buffers: Sequence[bytes | memoryview], headers: Sequence[BatchHeader], size: int
    ) -> None:
        written = partial(self._written, self.end_offset)
        self.writer.append(Append(self.log, buffers, headers, size, written))

    def _epoch_assigned(self, future: asyncio.Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if not self.failed:
            self.fail()
            self.on_failed(error)

    def _written(self, end_offset: int, error: BaseException | None) -> None:
        if error is not None:
            self._failed(error)
        if self.failed:
            return
        self.written_end = end_offset
        self.on_written()
        if end_offset == self.end_offset:
            self._release()

    def _release(self) -> None:
        waiting, self._idle = self._idle, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def _nothing() -> None:
    pass


def _drop_error(future: asyncio.Future[bool]) -> None:
    """A directory that failed has told everybody already."""
    if not future.cancelled():
        future.exception()


def _ignore(error: BaseException) -> None:
    del error
