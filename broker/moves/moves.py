"""Moves replicas between the log directories of this broker while they serve.

`replica_move` decides what happens next; this module carries it out. One task drives a move.
Separate threads of the moves copy the bytes (`future_copy`), the threads of the directories take
over the state of the copied files, and every decision is made on the loop.

`copy_rounds` brings a copy up to date; `directory_swap` swaps the replica to it.

Source: KIP-113, KIP-858; `kafka.server.ReplicaAlterLogDirsManager`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator
from functools import partial

from broker.bounds.limits import (
    CHANGED_S,
    CLOSE_BYTES,
    MOVE_RETRY_S,
    MOVE_RETRY_S_MAX,
    ROOM_BYTES,
    ROOM_INTERVAL_S,
    ROUND_INTERVAL_S,
)
from broker.disk.calls import ReplicaLostError
from broker.disk.directory import LogDir, LogDirs, LogInUse
from broker.moves.announcements import Announcements
from broker.moves.copy_rounds import CopyRounds
from broker.moves.copy_slots import Slots
from broker.moves.directory_swap import DirectorySwap, ReplicaFetchers, make_future
from broker.moves.future_copy import CopyError, FutureCopy, Side
from broker.moves.future_throttle import MoveThrottle
from broker.moves.move import ChangedError, Move, NoRoomError
from broker.moves.move_states import MoveEvent, MoveInstruction, MoveState, next_step
from broker.placement.directory_reports import DirectoryReports
from broker.placement.former_replicas import FormerReplicas, drop_error
from broker.placement.replica_placement import ReplicaPlacement
from broker.replica.log import PartitionLog
from broker.replica.partition import Partition
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.log.loaded_log import LoadedLog, create_log
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import TopicPartition

NO_ROOM_ERRORS = (errno.ENOSPC, errno.EDQUOT)

logger = logging.getLogger(__name__)


class RunningMoves:
    """All moves of this broker; on the event loop.

    Args:
        log_dirs: The directories.
        placement: The logs in them.
        fetchers: Of the followers.
        assigner: Asks the controller for a directory.
        asks_controller: Whether the cluster records directories at all.
        threads: How many moves copy much at the same time.
        throttle: The pace of all of them.
        on_moved: Called with source and target when their checkpoints are to be written anew.

    Attributes:
        formers: Former replicas that moves have left, until their copies are on the disk.
    """

    def __init__(
        self,
        log_dirs: LogDirs,
        placement: ReplicaPlacement,
        fetchers: ReplicaFetchers,
        assigner: DirectoryReports,
        *,
        asks_controller: Callable[[], bool],
        threads: int,
        throttle: MoveThrottle,
        on_moved: Callable[[LogDir, LogDir], None],
    ) -> None:
        self._log_dirs = log_dirs
        self._placement = placement
        self._announcements = Announcements(
            assigner,
            asks_controller,
            on_accepted=lambda move: self._handle(move, MoveEvent.ACCEPTED),
        )
        self._slots = Slots(threads)
        self.throttle = throttle
        self._moves: dict[TopicPartition, Move] = {}
        self._found: dict[TopicPartition, PartitionLog] = {}
        self._rounds = CopyRounds(throttle)
        self.formers = FormerReplicas(placement)
        self._swap = DirectorySwap(
            self._rounds,
            self.formers,
            fetchers,
            on_event=self._handle,
            on_copy_failed=self._copy_failed,
            on_swapped=on_moved,
        )
        self._is_stopped = False
        self.failed_count = 0
        """Moves that ended as their target failed."""

    # Questions of other parts

    def set_rate(self, bytes_per_second: int | None) -> None:
        """Change the pace of all moves together; None is without limit."""
        self.throttle.set_rate(bytes_per_second)

    def move_of(self, topic_partition: TopicPartition) -> Move | None:
        """Return the move of a replica."""
        return self._moves.get(topic_partition)

    def moves(self) -> Iterator[Move]:
        """Return all moves that are not over."""
        return iter(self._moves.values())

    def futures_in(self, log_dir: LogDir) -> Iterator[LogInUse]:
        """Return the future replicas in a directory; to be used on its thread only."""
        for move in self._moves.values():
            if move.target is log_dir and move.future is not None:
                high_watermark = min(move.partition.high_watermark, move.end)
                yield LogInUse(move.future, high_watermark)
        for log in self._found.values():
            if log.log_dir is log_dir:
                yield LogInUse(log, log.start_offset)

    # Wishes of operators and of the metadata

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
            self._placement.retire(topic_partition, found.files, found, found.log_dir)
        move = self._moves.get(topic_partition)
        if move is not None:
            self._handle(move, MoveEvent.CANCEL)

    def add_found(self, log: LoadedLog, log_dir: LogDir) -> None:
        """Take in a future replica that was found on a disk; its move goes on with its replica."""
        self._found[log.topic_partition] = self._placement.open(log, log_dir)

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
        target = found.log_dir
        if found.files.topic_id != partition.topic_id or target is log.log_dir or move is not None:
            self._placement.retire(partition.topic_partition, found.files, found, target)
            return
        resumed = Move(partition, log, target)
        resumed.future = found
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
        for topic_partition, log in list(self._found.items()):
            if log.log_dir is log_dir:
                del self._found[topic_partition]
                log_dir.clean_up(log.files.abandon)
        self.formers.log_dir_failed(log_dir)

    def log_dir_condition_changed(self, log_dir: LogDir) -> None:
        """Look at once whether what waited for room can go on."""
        for move in self._moves.values():
            if move.target is log_dir:
                move.changed.set()

    async def stop(self) -> None:
        """Stop all copying; what is there is gone on with after the next start."""
        self._is_stopped = True
        tasks = self._swap.stop()
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
        move.copy = FutureCopy(
            move.source.side_door(),
            move.target.side_door(),
            self.throttle,
            threads=move.target.environment.threads,
            monotonic_s=move.target.environment.monotonic_s,
            is_resumed=move.future is not None,
        )
        logger.info(
            "%s %s from %s to %s",
            "moving" if move.future is None else "resuming the move of",
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
                "move of %s to %s: %s, now %s",
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
                self._announcements.announce(move)
            case MoveInstruction.ASK_BACK:
                self._announcements.take_back(move)
            case MoveInstruction.PROMOTE:
                pass  # The task of the move sees its state.
            case MoveInstruction.RETIRE_SOURCE:
                pass  # Where it swaps, which alone knows what there was.
            case MoveInstruction.KEEP_COPY:
                self._end(move)
                if move.future is not None and move.target.is_online:
                    # It may just have been given the name of a current replica.
                    kept = move.target.run(
                        partial(make_future, move.future.files, move.target.environment.new_hex())
                    )
                    kept.add_done_callback(drop_error)
            case MoveInstruction.DELETE_COPY:
                self._end(move)
                if move.future is not None:
                    self._placement.retire(
                        move.topic_partition, move.future.files, move.future, move.target
                    )
            case MoveInstruction.FORGET_COPY:
                self.failed_count += 1
                self._end(move)
                if move.future is not None:
                    move.target.clean_up(move.future.files.abandon)
                    if move.target.is_online:
                        move.target.replica_count -= 1

    def _end(self, move: Move) -> None:
        if move.copy is not None:
            move.copy.stop()
        task, move.task = move.task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    # Inside: the task of a move

    async def _run(self, move: Move) -> None:
        # The files that are copied must not become others meanwhile, nor those copied already.
        async with move.log.cleaning.paused():
            await self._drive(move)

    async def _drive(self, move: Move) -> None:
        retry_s = MOVE_RETRY_S
        while not move.state.is_over:
            try:
                await self._advance(move)
                return
            except NoRoomError as error:
                await self._wait_for_room(move, error)
                continue
            except ChangedError as error:
                logger.debug("%s: %s", move.topic_partition, error)
                # The file that is read may be missing for longer, if somebody took it away.
                await asyncio.sleep(CHANGED_S)
                continue
            except CopyError as error:
                self._copy_failed(move, error)
            except JbodlabError as error:
                self._complain(move, str(error))
            except Exception:
                logger.exception("move of %s failed", move.topic_partition, extra=move.fields())
            if move.state.is_over or move.state is MoveState.SUSPENDED:
                return
            move.is_aligned = False
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, MOVE_RETRY_S_MAX)

    async def _advance(self, move: Move) -> None:
        """Bring a move to its end."""
        if move.future is None:
            await self._create(move)
        async with self._slots.taken(move.topic_partition):
            while await self._rounds.copy_round(move) > CLOSE_BYTES:
                pass
        if move.state is MoveState.COPYING:
            logger.info(
                "the copy of %s in %s has caught up: %d bytes in %.3f s",
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
                if await self._swap.promote(move):
                    return
                # Held appends must not be held again at once.
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MOVE_RETRY_S_MAX)
            move.changed.clear()
            if move.state is not MoveState.ASSIGNMENT_ACCEPTED:
                await _wait(move.changed, ROUND_INTERVAL_S)
            await self._rounds.copy_round(move)

    async def _create(self, move: Move) -> None:
        point = self._rounds.look(move)
        self._rounds.check_room(move, 0)
        create = partial(
            create_log,
            move.target.fs,
            move.target.path,
            move.topic_partition,
            move.partition.topic_id,
            move.log.config,
            move.target.files,
            log_start_offset=point.segments[0].base_offset,
            future_hex=move.target.environment.new_hex(),
        )
        move.target.replica_count += 1
        creating = move.target.run(create)
        creating.add_done_callback(partial(self._created, move))
        await asyncio.shield(creating)

    def _created(self, move: Move, creating: asyncio.Future[LoadedLog]) -> None:
        if creating.cancelled() or creating.exception() is not None:
            move.target.replica_count -= 1
            return
        future = self._placement.open(creating.result(), move.target)
        if move.state.is_over or move.future is not None:
            if move.target.is_online:
                self._placement.retire(move.topic_partition, future.files, future, move.target)
            else:
                move.target.clean_up(future.files.abandon)
            return
        move.future = future

    # Inside: what goes wrong

    async def _wait_for_room(self, move: Move, error: NoRoomError) -> None:
        self._complain(move, str(error))
        self._handle(move, MoveEvent.NO_ROOM)
        while not move.target.space.disk.has_room(error.size_bytes or ROOM_BYTES):
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
            level, "move of %s is waiting: %s", move.topic_partition, complaint, extra=move.fields()
        )


FAILURES = frozenset({MoveEvent.SOURCE_FAILED, MoveEvent.TARGET_FAILED})


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
