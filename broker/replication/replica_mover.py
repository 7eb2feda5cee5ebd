"""Moves replicas between the log directories of this broker while they serve.

What happens when is decided in `replica_move`; here it is done. One task drives a move. The bytes
are copied by threads of the moves' own (`future_copy`), the state of what was copied is taken over
on the threads of the directories, and everything that decides stays on the loop.

The swap does not wait for the target's disk. Until all of the copy is on it the former replica is
kept under another name, so that a machine that loses its power loses nothing; see
`found_replicas`.

The swap holds appends, and follower fetches, for as long as it takes to copy what came in the last
milliseconds and to rename one directory; produce requests of that time wait. If a disk is slow just
then, the hold is given up after a moment and tried again later.

Source: KIP-113, KIP-858; `kafka.server.ReplicaAlterLogDirsManager`.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol, TypeVar

from broker.logdirs.executor import run_aside
from broker.logdirs.hosted import HostedLog
from broker.logdirs.log_dir import LogDir
from broker.logdirs.log_dirs import LogDirs
from broker.logdirs.replica_files import ReplicaLostError
from broker.replication.future_copy import CopyError, FutureCopy, SegmentGoneError, Side
from broker.replication.future_throttle import MoveThrottle
from broker.replication.partition import Partition, ReplicaState
from broker.replication.partition_log import PartitionLog
from broker.replication.replica_move import MoveEvent, MoveInstruction, MoveState, next_step
from broker.replication.replica_placement import ReplicaPlacement
from jbodlab.directory_id import UNASSIGNED
from jbodlab.errors import JbodlabError, LogDirError
from jbodlab.ids import DirectoryId, TopicId, TopicPartition
from jbodlab.log import disk_errors, names
from jbodlab.log.replica_copy import CopyPoint, SegmentFiles, align
from jbodlab.log.replica_log import ReplicaLog

T = TypeVar("T")

PIECE_BYTES = 64 << 20
"""Room in the target is asked for by pieces of this size; a thread copies one after the other."""

CLOSE_BYTES = 1 << 20
"""A copy that lacks no more than this has caught up: it takes a millisecond or so."""

HOLD_BYTES = 128 << 10
ROUNDS_BEFORE_HOLD_MAX = 8
"""Before appends are held it is tried so often to have no more than so much left to copy."""

ROUND_INTERVAL_S = 0.05
"""How often a copy that has caught up is brought up to date while the controller is asked."""

ROOM_INTERVAL_S = 1.0
"""How often is looked whether a target has room again."""

HOLD_MAX_S = 0.5
"""After this time a hold is given up."""

RETRY_S = 0.2
RETRY_S_MAX = 5.0
NO_ROOM_ERRORS = (errno.ENOSPC, errno.EDQUOT)

logger = logging.getLogger(__name__)


class Assigner(Protocol):
    """Tells the controller where replicas are."""

    def assign(
        self,
        topic_id: TopicId,
        partition: int,
        directory_id: DirectoryId,
        callback: Callable[[], None] | None = None,
    ) -> None:
        """Report the directory of a replica; with a callback, exactly as it is said."""


class Following(Protocol):
    """The fetchers of followers."""

    def follow(self, partition: Partition) -> None:
        """Let a follower fetch."""

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop to fetch."""


class NoRoomError(JbodlabError):
    """The target takes no more records."""


class ChangedError(JbodlabError):
    """The log changed under the copy; the next round sees how."""


class SwapToken:
    """Whether a swap may still be done; asked by the target's thread, taken back by the loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken_back = False
        self._is_begun = False

    def begin(self) -> bool:
        """Return whether to do it."""
        with self._lock:
            self._is_begun = not self._is_taken_back
            return self._is_begun

    def take_back(self) -> bool:
        """Have it not done; returns False if it is too late for that."""
        with self._lock:
            self._is_taken_back = not self._is_begun
            return self._is_taken_back


class Move:
    """One move of one replica.

    Attributes:
        future: The future replica, None before it is there.
        end: Where the copy ends, as the loop knows it.
        source_end: Where the log ended at the last look.
    """

    def __init__(self, partition: Partition, log: PartitionLog, target: LogDir) -> None:
        self.partition = partition
        self.log = log
        self.source = log.log_dir
        self.target = target
        self.state = MoveState.COPYING
        self.future: ReplicaLog | None = None
        self.copy: FutureCopy | None = None
        self.task: asyncio.Task[None] | None = None
        self.changed = asyncio.Event()
        self.attempt = 0
        self.end = 0
        self.base_offset = 0
        self.adopted_size = 0
        self.position = 0
        self.bytes_before = 0
        self.cut_to: int | None = None
        self.is_aligned = False
        self.point: CopyPoint | None = None
        self.begun_s = asyncio.get_running_loop().time()
        self.complaint = ""

    @property
    def topic_partition(self) -> TopicPartition:
        """Of the replica."""
        return self.partition.topic_partition

    @property
    def size_bytes(self) -> int:
        """Bytes of the copy, those included that belong to no whole segment yet."""
        position = max(self.position, self.adopted_size)
        if self.copy is not None:
            position = max(position, self.copy.position)
        return self.bytes_before + position

    @property
    def lag(self) -> int:
        """About how many offsets the copy is behind; -1 if the current replica is offline."""
        if self.partition.log is not self.log or self.state is MoveState.SUSPENDED:
            return -1
        reached = self.end
        for extent in () if self.point is None else self.point.extents:
            if extent.base_offset == self.base_offset and self.copy is not None and extent.size:
                share = min(self.copy.position, extent.size) / extent.size
                span = extent.next_offset - extent.base_offset
                # Only a whole batch counts, so that nothing seems complete before it is.
                reached = max(reached, extent.base_offset + int(span * share) - 1)
        return max(self.log.end_offset - reached, 0)

    def fields(self) -> dict[str, object]:
        """Return what every line of the log about this move carries as `extra`."""
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "log_dir": str(self.target.path),
            "directory_id": self.target.id_text,
        }


class ReplicaMover:
    """All moves of this broker; on the event loop.

    Args:
        log_dirs: The directories.
        placement: The logs in them.
        fetchers: Of the followers.
        assigner: Asks the controller for a directory.
        asks_controller: Whether the cluster records directories at all.
        threads: How many moves copy much at the same time.
        throttle: The pace of all of them.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        placement: ReplicaPlacement,
        fetchers: Following,
        assigner: Assigner,
        *,
        asks_controller: Callable[[], bool],
        threads: int,
        throttle: MoveThrottle,
    ) -> None:
        self._log_dirs = log_dirs
        self._placement = placement
        self._fetchers = fetchers
        self._assigner = assigner
        self._asks_controller = asks_controller
        self._slots = Slots(threads)
        self.throttle = throttle
        self._moves: dict[TopicPartition, Move] = {}
        self._found: dict[TopicPartition, tuple[ReplicaLog, LogDir]] = {}
        self._syncing: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self.failed_count = 0
        """Moves that ended as their target failed."""
        self.on_swapped: Callable[[LogDir, LogDir], None] = _nothing
        """Called with source and target when their checkpoints are to be written anew."""

    # What others ask

    def set_rate(self, bytes_per_second: int | None) -> None:
        """Change the pace of all moves together; None is without limit."""
        self.throttle.set_rate(bytes_per_second)

    def move_of(self, topic_partition: TopicPartition) -> Move | None:
        """Return the move of a replica."""
        return self._moves.get(topic_partition)

    def moves(self) -> Iterator[Move]:
        """Return all moves that are not over."""
        return iter(self._moves.values())

    def futures_in(self, log_dir: LogDir) -> Iterator[HostedLog]:
        """Return the future replicas in a directory; to be used on its thread only."""
        for move in self._moves.values():
            if move.target is log_dir and move.future is not None:
                high_watermark = min(move.partition.high_watermark, move.end)
                yield HostedLog(move.future, high_watermark)
        for log, found_in in self._found.values():
            if found_in is log_dir:
                yield HostedLog(log, log.log_start_offset)

    # What operators and the metadata want

    def start(self, partition: Partition, target: LogDir) -> None:
        """Begin to move a replica that is online, and not being moved."""
        log = partition.log
        assert log is not None
        assert log.log_dir is not target
        assert partition.topic_partition not in self._moves
        self._begin(Move(partition, log, target))

    def cancel(self, topic_partition: TopicPartition) -> None:
        """End the move of a replica, if there is one; the copy is removed."""
        found = self._found.pop(topic_partition, None)
        if found is not None:
            log, log_dir = found
            self._placement.retire(topic_partition, log, log_dir)
        move = self._moves.get(topic_partition)
        if move is not None:
            self._handle(move, MoveEvent.CANCEL)

    def add_found(self, log: ReplicaLog, log_dir: LogDir) -> None:
        """Take in a future replica that was found on a disk; its move goes on with its replica."""
        self._found[log.topic_partition] = (log, log_dir)

    def replica_opened(self, partition: Partition) -> None:
        """Go on with the move of a replica that has a log now."""
        log = partition.log
        assert log is not None
        move = self._moves.get(partition.topic_partition)
        if move is not None and move.state is MoveState.SUSPENDED:
            if log.log_dir is move.target:
                self._handle(move, MoveEvent.CANCEL)
                return
            move.partition, move.log, move.source = partition, log, log.log_dir
            self._handle(move, MoveEvent.SOURCE_BACK)
            self._begin(move)
            return
        found = self._found.pop(partition.topic_partition, None)
        if found is None:
            return
        future, target = found
        if future.topic_id != partition.topic_id or target is log.log_dir or move is not None:
            self._placement.retire(partition.topic_partition, future, target)
            return
        resumed = Move(partition, log, target)
        resumed.future = future
        self._begin(resumed)

    def replica_offline(self, topic_partition: TopicPartition) -> None:
        """Stop the move of a replica that went offline; its own directory may be healthy."""
        move = self._moves.get(topic_partition)
        if move is not None:
            self._handle(move, MoveEvent.SOURCE_FAILED)

    def log_dir_failed(self, log_dir: LogDir) -> None:
        """Take notice that a directory failed; the replicas in it are offline already."""
        for move in list(self._moves.values()):
            if move.target is log_dir:
                self._handle(move, MoveEvent.TARGET_FAILED)
        for topic_partition, (log, found_in) in list(self._found.items()):
            if found_in is log_dir:
                del self._found[topic_partition]
                log_dir.clean_up(log.abandon)

    def log_dir_condition_changed(self, log_dir: LogDir) -> None:
        """Look at once whether what waited for room can go on."""
        for move in self._moves.values():
            if move.target is log_dir:
                move.changed.set()

    async def stop(self) -> None:
        """Stop all copying; what is there is gone on with after the next start."""
        self._is_stopped = True
        tasks = list(self._syncing)
        for task in tasks:
            task.cancel()
        for move in self._moves.values():
            if move.copy is not None:
                move.copy.stop()
            if move.task is not None:
                move.task.cancel()
                tasks.append(move.task)
        await asyncio.gather(*tasks, return_exceptions=True)

    # Inside: events and instructions

    def _begin(self, move: Move) -> None:
        self._moves[move.topic_partition] = move
        move.begun_s = asyncio.get_running_loop().time()
        move.is_aligned = False
        if self._is_stopped:
            return
        move.copy = FutureCopy(move.source.side_door(), move.target.side_door(), self.throttle)
        logger.info(
            "%s %s from %s to %s",
            "moving" if move.future is None else "going on to move",
            move.topic_partition,
            move.source.path,
            move.target.path,
            extra=move.fields(),
        )
        move.task = asyncio.get_running_loop().create_task(
            self._run(move), name=f"move {move.topic_partition}"
        )

    def _handle(self, move: Move, event: MoveEvent) -> None:
        before = move.state
        move.state, instructions = next_step(before, event)
        if move.state is not before:
            level = logging.WARNING if event in FAILURES else logging.INFO
            logger.log(
                level,
                "move of %s to %s: %s, %s",
                move.topic_partition,
                move.target.path,
                event.name,
                move.state.name,
                extra=move.fields(),
            )
        if not move.state.is_promised:
            move.partition.promised = None
        for instruction in instructions:
            self._carry_out(move, instruction)
        if move.state.is_over and self._moves.get(move.topic_partition) is move:
            del self._moves[move.topic_partition]
        move.changed.set()

    def _carry_out(self, move: Move, instruction: MoveInstruction) -> None:
        match instruction:
            case MoveInstruction.ASK_FOR_TARGET:
                self._ask_for_target(move)
            case MoveInstruction.ASK_BACK:
                self._ask_back(move)
            case MoveInstruction.PROMOTE:
                pass  # The task of the move sees its state.
            case MoveInstruction.RETIRE_SOURCE:
                pass  # Where it swaps, which alone knows what there was.
            case MoveInstruction.KEEP_COPY:
                self._end(move)
                if move.future is not None and move.target.is_online:
                    # It may just have been given the name of a current replica.
                    kept = move.target.run(partial(_make_future, move.future))
                    kept.add_done_callback(_drop_error)
            case MoveInstruction.DELETE_COPY:
                self._end(move)
                if move.future is not None:
                    self._placement.retire(move.topic_partition, move.future, move.target)
            case MoveInstruction.FORGET_COPY:
                self.failed_count += 1
                self._end(move)
                if move.future is not None:
                    move.target.clean_up(move.future.abandon)
                    if move.target.is_online:
                        move.target.replica_count -= 1

    def _end(self, move: Move) -> None:
        if move.copy is not None:
            move.copy.stop()
        task, move.task = move.task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def _ask_for_target(self, move: Move) -> None:
        directory_id = move.target.directory_id
        assert directory_id is not None
        move.attempt += 1
        move.partition.promised = directory_id
        accepted = partial(self._accepted, move, move.attempt)
        if not self._asks_controller():
            asyncio.get_running_loop().call_soon(accepted)
            return
        self._assigner.assign(
            move.partition.topic_id, move.topic_partition.partition, directory_id, accepted
        )

    def _accepted(self, move: Move, attempt: int) -> None:
        # An answer to what was asked back meanwhile says nothing.
        if attempt == move.attempt and move.state is MoveState.ASSIGNMENT_QUEUED:
            self._handle(move, MoveEvent.ACCEPTED)

    def _ask_back(self, move: Move) -> None:
        move.attempt += 1
        if self._asks_controller() and move.partition.state is not ReplicaState.DELETED:
            self._assigner.assign(
                move.partition.topic_id,
                move.topic_partition.partition,
                move.source.directory_id or UNASSIGNED,
                _nothing_more,
            )

    # Inside: the task of a move

    async def _run(self, move: Move) -> None:
        retry_s = RETRY_S
        while not move.state.is_over:
            try:
                await self._advance(move)
                return
            except NoRoomError:
                await self._wait_for_room(move)
                continue
            except ChangedError as error:
                logger.debug("%s: %s", move.topic_partition, error)
                continue
            except CopyError as error:
                self._copy_failed(move, error)
            except JbodlabError as error:
                self._complain(move, str(error))
            except Exception:
                logger.exception("moving %s failed", move.topic_partition, extra=move.fields())
            if move.state.is_over or move.state is MoveState.SUSPENDED:
                return
            move.is_aligned = False
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _advance(self, move: Move) -> None:
        """Bring a move to its end."""
        if move.future is None:
            await self._create(move)
        async with self._slots.taken(move.topic_partition):
            while await self._copy_round(move) > CLOSE_BYTES:
                pass
        if move.state is MoveState.COPYING:
            logger.info(
                "%s has caught up in %s: %d bytes in %.3f s",
                move.topic_partition,
                move.target.path,
                move.size_bytes,
                asyncio.get_running_loop().time() - move.begun_s,
                extra=move.fields(),
            )
        self._handle(move, MoveEvent.CAUGHT_UP)
        pause_s = ROUND_INTERVAL_S
        while True:
            if move.state is MoveState.ASSIGNMENT_ACCEPTED:
                if await self._promote(move):
                    return
                # Held appends must not be held again at once.
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)
            move.changed.clear()
            if move.state is not MoveState.ASSIGNMENT_ACCEPTED:
                await _wait(move.changed, ROUND_INTERVAL_S)
            await self._copy_round(move)

    async def _create(self, move: Move) -> None:
        log = move.log.log
        point = await move.source.run(log.copy_point)
        self._note(move, point)
        self._check_room(move, 0)
        create = partial(
            ReplicaLog.create,
            move.target.fs,
            move.target.path,
            move.topic_partition,
            move.partition.topic_id,
            log.config,
            log_start_offset=point.extents[0].base_offset,
            future_hex=uuid.uuid4().hex,
        )
        move.target.replica_count += 1
        creating = move.target.run(create)
        creating.add_done_callback(partial(self._created, move))
        await asyncio.shield(creating)

    def _created(self, move: Move, creating: asyncio.Future[ReplicaLog]) -> None:
        if creating.cancelled() or creating.exception() is not None:
            move.target.replica_count -= 1
            return
        future = creating.result()
        if move.state.is_over:
            if move.target.is_online:
                self._placement.retire(move.topic_partition, future, move.target)
            else:
                move.target.clean_up(future.abandon)
            return
        move.future = future

    async def _copy_round(self, move: Move) -> int:
        """Copy what the log has and the copy has not; returns how many bytes that was."""
        log, future, copy = move.log.log, move.future, move.copy
        assert future is not None
        assert copy is not None
        point = await move.source.run(log.copy_point)
        self._note(move, point)
        if not move.is_aligned or move.cut_to is not None:
            await self._align(move, point)
        first = point.extents[0].base_offset
        copied = 0
        for extent in point.extents:
            if extent.base_offset < move.base_offset:
                continue
            if extent.base_offset > move.base_offset:
                move.bytes_before += move.adopted_size
                move.base_offset = extent.base_offset
                move.adopted_size = move.position = copy.position = 0
            before = move.position
            await self._copy_segment(move, extent.size)
            copied += move.position - before
            is_whole = extent is not point.extents[-1]
            if is_whole:
                await self._adopt_whole(move, extent.size, point)
            elif extent.size > move.adopted_size or extent.next_offset != move.end:
                await self._adopt_last(move, point)
        if move.end != point.log_end_offset or not move.is_aligned:
            raise ChangedError("the log was cut")
        if future.segment_base_offsets[0] < first or (
            future.log_start_offset < point.log_start_offset
        ):
            dropped = await move.target.run(partial(_follow_start, future, first, point))
            move.bytes_before -= dropped
        return copied

    def _note(self, move: Move, point: CopyPoint) -> None:
        move.point = point
        if point.cut_to is not None:
            known = move.cut_to
            move.cut_to = point.cut_to if known is None else min(known, point.cut_to)

    async def _align(self, move: Move, point: CopyPoint) -> None:
        future, copy = move.future, move.copy
        assert future is not None
        assert copy is not None
        move.is_aligned = False
        cut_to = move.cut_to
        found = await move.target.run(partial(_aligned, future, point, cut_to))
        *whole, last = found.extents
        move.base_offset, move.adopted_size = last.base_offset, last.size
        move.position = copy.position = last.size
        move.bytes_before = sum(extent.size for extent in whole)
        move.end = found.log_end_offset
        move.cut_to = None
        move.is_aligned = True

    async def _copy_segment(self, move: Move, size: int) -> None:
        """Copy the segment up to a size."""
        future, copy = move.future, move.copy
        assert future is not None
        assert copy is not None
        name = names.log_file(move.base_offset)
        source, target = move.log.log.directory / name, future.directory / name
        while move.position < size:
            end = min(size, move.position + self._piece_bytes())
            wanted = end - move.position
            self._check_room(move, wanted)
            move.target.space.charge(wanted)
            try:
                reached = await run_aside(
                    partial(
                        copy.copy,
                        source,
                        target,
                        move.position,
                        end,
                    ),
                    f"move {move.topic_partition}",
                )
            except SegmentGoneError as error:
                raise ChangedError(str(error)) from error
            finally:
                move.target.space.settle(wanted)
            move.position = reached
            if reached < end:
                raise ChangedError("the log was cut")

    def _piece_bytes(self) -> int:
        rate = self.throttle.rate
        return PIECE_BYTES if not rate else max(min(PIECE_BYTES, rate), CLOSE_BYTES)

    def _check_room(self, move: Move, size: int) -> None:
        if not move.target.space.disk.has_room(size):
            raise NoRoomError(str(move.target.path))

    async def _adopt_whole(self, move: Move, size: int, point: CopyPoint) -> None:
        """Take in a segment that is closed off."""
        files = await self._segment_files(move)
        if files.state.size != size:
            raise ChangedError("the segment changed")
        await self._adopt(move, files, point, is_whole=True)

    async def _adopt_last(self, move: Move, point: CopyPoint) -> None:
        """Take in what was copied of the last segment."""
        if move.log.log.cut_to is not None:
            raise ChangedError("the log was cut")
        snapshot = None
        if not move.adopted_size:
            snapshot = (await self._segment_files(move)).snapshot
        await self._adopt(move, SegmentFiles(point.active, snapshot, None), point, is_whole=False)

    async def _segment_files(self, move: Move) -> SegmentFiles:
        files = await move.source.run(partial(move.log.log.segment_files, move.base_offset))
        if files is None or files.cut_to is not None:
            raise ChangedError("the log was cut")
        return files

    async def _adopt(
        self, move: Move, files: SegmentFiles, point: CopyPoint, *, is_whole: bool
    ) -> None:
        future, copy = move.future, move.copy
        assert future is not None
        assert copy is not None
        if is_whole or files.snapshot is not None:
            await run_aside(
                partial(copy.write_files, future.directory, files, is_whole=is_whole),
                f"move {move.topic_partition}",
            )
        producers = None if is_whole else point.producers
        adopt = partial(
            future.adopt,
            files.state,
            point.epochs,
            producers,
            has_snapshot=files.snapshot is not None,
        )
        await move.target.run(adopt)
        move.adopted_size = files.state.size
        move.end = files.state.next_offset

    async def _make_durable(self, move: Move, former: ReplicaLog, source: LogDir) -> None:
        """Have what was copied written to the disk, and then the former replica removed."""
        future, copy, target = move.future, move.copy, move.target
        assert future is not None
        assert copy is not None
        begun_s = asyncio.get_running_loop().time()
        try:
            await run_aside(partial(copy.sync, future.directory), f"move {move.topic_partition}")
            await target.run(partial(_is_durable, target, future, move.end))
        except CopyError as error:
            self._copy_failed(move, error)
            return
        except JbodlabError as error:
            # The target has failed, and with it the replica. The former one is safe where it is.
            logger.warning("%s stays in %s: %s", former.directory.name, source.path, error)
            return
        finally:
            copy.stop()
        logger.debug(
            "%s is on the disk of %s after %.3f s",
            move.topic_partition,
            target.path,
            asyncio.get_running_loop().time() - begun_s,
        )
        if source.is_online:
            self._placement.retire(move.topic_partition, former, source, is_counted=False)

    async def _promote(self, move: Move) -> bool:
        """Hold appends, copy the rest, and swap; returns False if it has to be tried again."""
        partition, log, future = move.partition, move.log, move.future
        assert future is not None
        # What is long under way on one of the threads is waited for before, not in the hold.
        await move.source.run(_do_nothing)
        for _ in range(ROUNDS_BEFORE_HOLD_MAX):
            if await self._copy_round(move) <= HOLD_BYTES:
                break
        await move.target.run(_do_nothing)
        if move.state is not MoveState.ASSIGNMENT_ACCEPTED or partition.log is not log:
            return False
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        assert move.copy is not None
        # What is left is little, and who waits are clients.
        move.copy.is_paced = False
        partition.hold()
        self._fetchers.unfollow(partition.topic_partition)
        try:
            async with asyncio.timeout(HOLD_MAX_S):
                await log.settled()
                await self._copy_round(move)
            if log.failed or move.end != log.end_offset or log.written_end != log.end_offset:
                return False
            if not await self._rename(move):
                return False
            if move.state is not MoveState.ASSIGNMENT_ACCEPTED or partition.log is not log:
                return False
            self._swap(move)
        except TimeoutError:
            logger.info(
                "swap of %s was put off, a disk is busy", move.topic_partition, extra=move.fields()
            )
            return False
        finally:
            move.copy.is_paced = True
            if partition.log is log:
                if partition.state is ReplicaState.FOLLOWER:
                    self._fetchers.follow(partition)
                partition.release()
            held_ms = (loop.time() - begun_s) * 1000
            logger.debug("appends of %s were held for %.1f ms", move.topic_partition, held_ms)
        logger.info(
            "%s is in %s now, with %d bytes and end offset %d; appends were held for %.1f ms",
            move.topic_partition,
            move.target.path,
            move.size_bytes,
            log.end_offset,
            held_ms,
            extra=move.fields(),
        )
        return True

    async def _rename(self, move: Move) -> bool:
        """Give the copy the name of a current replica, unless that takes too long to begin."""
        assert move.future is not None
        token = SwapToken()
        renamed = move.target.run(partial(_make_current, move.future, token))
        renamed.add_done_callback(_drop_error)
        done, _ = await asyncio.wait([renamed], timeout=HOLD_MAX_S)
        if not done and token.take_back():
            return False
        return await renamed

    def _swap(self, move: Move) -> None:
        """Let the replica go on with the copy; nothing waits in here."""
        assert move.future is not None
        former, source = move.log.log, move.source
        move.log.move_to(move.future, self._placement.writer(move.target))
        self._handle(move, MoveEvent.SWAPPED)
        # Until the copy is on the disk the former replica is kept, under a name that nobody uses.
        source.replica_count -= 1
        put_away = source.run(partial(_put_away, former))
        put_away.add_done_callback(_drop_error)
        self.on_swapped(source, move.target)
        task = asyncio.get_running_loop().create_task(
            self._make_durable(move, former, source), name=f"sync {move.topic_partition}"
        )
        self._syncing.add(task)
        task.add_done_callback(self._syncing.discard)

    # Inside: what goes wrong

    async def _wait_for_room(self, move: Move) -> None:
        self._complain(move, f"log directory {move.target.path} has no room for more")
        self._handle(move, MoveEvent.NO_ROOM)
        while not move.target.space.disk.has_room(PIECE_BYTES // 8):
            move.changed.clear()
            await _wait(move.changed, ROOM_INTERVAL_S)

    def _copy_failed(self, move: Move, failure: CopyError) -> None:
        error = failure.error
        log_dir = move.source if failure.side is Side.SOURCE else move.target
        self._complain(move, f"{failure.side.name.lower()} {log_dir.path}: {error}")
        if isinstance(error, ReplicaLostError):
            if failure.side is Side.TARGET:
                self._handle(move, MoveEvent.TARGET_FAILED)
            return
        if failure.side is Side.TARGET and error.errno in NO_ROOM_ERRORS:
            self._handle(move, MoveEvent.NO_ROOM)
        elif disk_errors.is_directory_failure(error):
            self._log_dirs.fail(log_dir, disk_errors.describe(error))

    def _complain(self, move: Move, complaint: str) -> None:
        """Log a failure once, not with every retry."""
        level = logging.DEBUG if complaint == move.complaint else logging.WARNING
        move.complaint = complaint
        logger.log(
            level, "move of %s waits: %s", move.topic_partition, complaint, extra=move.fields()
        )


FAILURES = frozenset({MoveEvent.SOURCE_FAILED, MoveEvent.TARGET_FAILED})


class Slots:
    """So many at a time; of those that wait the smallest partition comes first."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[tuple[TopicPartition, int, asyncio.Future[None]]] = []
        self._number = 0

    @asynccontextmanager
    async def taken(self, topic_partition: TopicPartition) -> AsyncIterator[None]:
        """Wait for a slot, and give it back in the end."""
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._number += 1
            heapq.heappush(self._waiting, (topic_partition, self._number, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._give_back()
                raise
        try:
            yield
        finally:
            self._give_back()

    def _give_back(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass


def _aligned(future: ReplicaLog, point: CopyPoint, cut_to: int | None) -> CopyPoint:
    """Align a copy, on its directory's thread; returns what it consists of then."""
    align(future, point, cut_to)
    return future.copy_point()


def _follow_start(future: ReplicaLog, first: int, point: CopyPoint) -> int:
    """Let a copy begin where its log begins; returns how many bytes went."""
    before = future.size_bytes
    future.drop_before(first)
    future.advance_start_to(min(point.log_start_offset, future.log_end_offset))
    return before - future.size_bytes


def _make_current(future: ReplicaLog, token: SwapToken) -> bool:
    """Rename on the target's thread, unless it was taken back."""
    if not token.begin():
        return False
    # It is on the disk before the source's directory is renamed, but appends need not wait for it.
    future.rename_to_current(sync=False)
    return True


def _make_future(log: ReplicaLog) -> None:
    if not log.is_future:
        log.rename_to(names.future_dir(log.topic_partition, uuid.uuid4().hex))


def _put_away(log: ReplicaLog) -> None:
    """Rename and close the former replica, on its directory's thread."""
    try:
        log.rename_to(names.moved_dir(log.topic_partition, uuid.uuid4().hex), sync=False)
    finally:
        log.abandon()


def _is_durable(target: LogDir, future: ReplicaLog, end_offset: int) -> None:
    target.fs.fsync_dir(target.path)
    future.adopted_on_disk(end_offset)


def _do_nothing() -> None:
    """Find out when a thread gets to it."""


def _nothing(source: LogDir, target: LogDir) -> None:
    del source, target


def _nothing_more() -> None:
    """The controller knows where the replica is again."""


def _drop_error(future: asyncio.Future[T]) -> None:
    """A directory that failed has told everybody already."""
    error = None if future.cancelled() else future.exception()
    if error is not None and not isinstance(error, LogDirError):
        logger.warning("%s", error)
