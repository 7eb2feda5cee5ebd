"""Swaps a replica to its copy in another log directory.

The swap does not wait for the target's disk. Until the whole copy is on the disk, the old copy is
kept under another name, so that neither a power failure nor a disk failure loses records; see
`former_replicas`.

The swap pauses appends and follower fetches while it copies the records of the last milliseconds
and renames one directory; produce requests wait meanwhile. If a disk is slow at that moment, the
swap gives up quickly and is retried later.

Source: KIP-113, KIP-858; `kafka.server.ReplicaAlterLogDirsManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from broker.bounds.limits import HOLD_BYTES, HOLD_MAX_S, ROUNDS_BEFORE_HOLD_MAX
from broker.disk.calls import ReplicaLostError, run_aside
from broker.disk.directory import LogDir
from broker.moves.copy_rounds import CopyRounds
from broker.moves.future_copy import CopyError
from broker.moves.move import Move
from broker.moves.move_states import MoveEvent, MoveState
from broker.placement.former_replicas import FormerReplica, FormerReplicas, drop_error
from broker.replica.partition import Partition
from broker.replica.replica_state import Deleted, Following
from jbodlab.runtime.supervised import supervised
from jbodlab.storage.directory import names
from jbodlab.storage.log.log_files import LogFiles
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import TopicPartition

logger = logging.getLogger(__name__)


class ReplicaFetchers(Protocol):
    """The fetchers of followers."""

    def follow(self, partition: Partition) -> None:
        """Let a follower fetch."""

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop to fetch."""


class SwapToken:
    """Whether a swap may still be done; asked by the target's thread, taken back by the loop.

    They may ask at the same time, the first decides.
    """

    def __init__(self) -> None:
        self._fate: dict[str, bool] = {}

    def begin(self) -> bool:
        """Return whether to do it."""
        return self._fate.setdefault("is_begun", True)

    def take_back(self) -> bool:
        """Have it not done; returns False if it is too late for that."""
        return not self._fate.setdefault("is_begun", False)


class DirectorySwap:
    """The swaps of all moves of a broker; on the event loop.

    Args:
        rounds: Bring a copy up to date.
        formers: Keep what was moved until the copy is on its disk.
        fetchers: Of the followers.
        on_event: Called when a replica was swapped.
        on_copy_failed: Called when one of the disks failed afterwards.
        on_swapped: Called with source and target when their checkpoints are to be written anew.
    """

    def __init__(
        self,
        rounds: CopyRounds,
        formers: FormerReplicas,
        fetchers: ReplicaFetchers,
        *,
        on_event: Callable[[Move, MoveEvent], None],
        on_copy_failed: Callable[[Move, CopyError], None],
        on_swapped: Callable[[LogDir, LogDir], None],
    ) -> None:
        self._rounds = rounds
        self._fetchers = fetchers
        self._on_event = on_event
        self._on_copy_failed = on_copy_failed
        self._syncing: dict[asyncio.Task[None], None] = {}
        self._formers = formers
        self._on_swapped = on_swapped

    def stop(self) -> list[asyncio.Task[None]]:
        """Wait for no disk any more; returns the tasks that end now."""
        tasks = list(self._syncing)
        for task in tasks:
            task.cancel()
        return tasks

    async def promote(self, move: Move) -> bool:
        """Hold appends, copy the rest, and swap; returns False if it has to be tried again."""
        partition, log, future = move.partition, move.log, move.future
        assert future is not None
        # Calls that are long under way on a thread are waited for before, not in the hold.
        await move.source.run(_do_nothing)
        for _ in range(ROUNDS_BEFORE_HOLD_MAX):
            if await self._rounds.copy_round(move) <= HOLD_BYTES:
                break
        await move.target.run(_do_nothing)
        if move.state is not MoveState.ASSIGNMENT_ACCEPTED or partition.log is not log:
            return False
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        assert move.copy is not None
        # The rest is little, and clients wait for it.
        move.copy.is_paced = False
        partition.hold()
        self._fetchers.unfollow(partition.topic_partition)
        try:
            async with asyncio.timeout(HOLD_MAX_S):
                await log.written()
                await self._rounds.copy_round(move)
                await future.written()
            is_settled = log.is_settled and future.is_settled
            if log.failed or move.end != log.end_offset or not is_settled:
                return False
            if not await self._rename(move):
                return False
            if not log.is_settled:
                # It began to lead meanwhile: the new epoch is on its way to the former directory.
                with suppress(TimeoutError):
                    async with asyncio.timeout(HOLD_MAX_S):
                        await log.written()
            if move.state is not MoveState.ASSIGNMENT_ACCEPTED or partition.log is not log:
                return False
            if not log.is_settled:
                _put_off(move)
                self._take_name_back(move)
                return False
            self._swap(move)
        except TimeoutError:
            _put_off(move)
            return False
        finally:
            move.copy.is_paced = True
            if partition.log is log:
                if isinstance(partition.state, Following):
                    self._fetchers.follow(partition)
                partition.release()
            held_ms = (loop.time() - begun_s) * 1000
            logger.debug("appends of %s were held for %.1f ms", move.topic_partition, held_ms)
        logger.info(
            "%s is now in %s (%d bytes, end offset %d); appends were paused for %.1f ms",
            move.topic_partition,
            move.target.path,
            move.size_bytes,
            log.end_offset,
            held_ms,
            extra=move.fields(),
        )
        return True

    async def _rename(self, move: Move) -> bool:
        """Give the copy the name of a current replica, unless that takes too long."""
        assert move.future is not None
        token = SwapToken()
        renamed = move.target.run(partial(_make_current, move.future.files, token))
        renamed.add_done_callback(drop_error)
        done, _ = await asyncio.wait([renamed], timeout=HOLD_MAX_S)
        if done:
            return await renamed
        _put_off(move)
        if not token.take_back():
            # It is under way and may hang. When it has come to its end it is undone.
            self._take_name_back(move)
        return False

    def _take_name_back(self, move: Move) -> None:
        """Let the copy be a future replica again, before the next round begins.

        Should this process end before, the source has all there is.
        """
        assert move.future is not None
        undone = move.target.run(
            partial(make_future, move.future.files, move.target.environment.new_hex())
        )
        undone.add_done_callback(drop_error)
        move.aside = undone

    def _swap(self, move: Move) -> None:
        """Let the replica go on with the copy; nothing waits in here."""
        assert move.future is not None
        source, former = move.source, FormerReplica.of(move.log, move.source)
        move.log.move_to(move.future)
        self._on_event(move, MoveEvent.SWAPPED)
        # Until the copy is on the disk the former replica is kept, under a name that nobody uses.
        source.replica_count -= 1
        put_away = source.run(partial(_put_away, former.files, source.environment.new_hex()))
        put_away.add_done_callback(drop_error)
        self._formers.keep(move.topic_partition, former)
        self._on_swapped(source, move.target)
        task = supervised(
            partial(self._make_durable, move, former, move.log.state.cut_count),
            name=f"sync {move.topic_partition}",
            on_end=_keep_former,
        )
        self._syncing[task] = None
        task.add_done_callback(self._syncing.pop)

    async def _make_durable(self, move: Move, former: FormerReplica, cut_count: int) -> None:
        """Have what was copied written to the disk, and then the former replica removed."""
        log, copy, target = move.log, move.copy, move.target
        assert copy is not None
        files = log.files
        begun_s = asyncio.get_running_loop().time()
        try:
            await run_aside(
                partial(copy.sync, files.directory),
                f"move {move.topic_partition}",
                target.environment.threads,
            )
            await target.upkeep(partial(target.upkeep_fs.fsync_dir, target.path))
            if log.files is files and log.state.cut_count == cut_count:
                log.state.copy_is_on_disk(move.end)
        except CopyError as error:
            if not isinstance(error.error, ReplicaLostError):
                self._on_copy_failed(move, error)
            elif isinstance(move.partition.state, Deleted):
                self._formers.retire(move.topic_partition, log, former)
            # Else it was moved on, and when that copy is on its disk the former ones go too.
            return
        except JbodlabError as error:
            # The target has failed, and with it the replica. The former one is safe where it is.
            logger.warning("keeping %s: %s", former.files.directory, error)
            return
        finally:
            copy.stop()
        logger.debug(
            "%s is on the disk of %s after %.3f s",
            move.topic_partition,
            target.path,
            asyncio.get_running_loop().time() - begun_s,
        )
        self._formers.retire(move.topic_partition, log, former)


def _put_off(move: Move) -> None:
    logger.info(
        "move of %s: swap postponed because a disk is busy",
        move.topic_partition,
        extra=move.fields(),
    )


def _make_current(future: LogFiles, token: SwapToken) -> bool:
    """Rename on the target's thread, unless it was taken back."""
    if not token.begin():
        return False
    # It is on the disk before the source's directory is renamed, but appends need not wait for it.
    future.rename_to(names.partition_dir(future.topic_partition), sync=False)
    return True


def make_future(files: LogFiles, unique_hex: str) -> None:
    """Take the name of a current replica away from a copy, on its directory's thread."""
    if not files.is_future:
        files.rename_to(names.future_dir(files.topic_partition, unique_hex))


def _put_away(files: LogFiles, unique_hex: str) -> None:
    """Rename and close the former replica, on its directory's thread."""
    try:
        files.rename_to(names.moved_dir(files.topic_partition, unique_hex), sync=False)
    finally:
        files.abandon()


def _do_nothing() -> None:
    """Find out when a thread gets to it."""


def _keep_former(line: str) -> None:
    """The former replica stays, as nobody knows whether the copy is on its disk."""
    logger.error("keeping the old copy of a moved replica: %s", line)
