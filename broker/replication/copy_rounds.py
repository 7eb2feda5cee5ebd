"""Brings the copy of a replica up to date, one round after the other.

A round looks at what the log consists of, and copies what the copy has not. The bytes go by threads
of the moves' own; what is known of them is taken over on the threads of the directories.

Source: KIP-113.
"""

from __future__ import annotations

import asyncio
from functools import partial

from broker.logdirs.executor import run_aside
from broker.replication.future_copy import SegmentGoneError
from broker.replication.future_throttle import MoveThrottle
from broker.replication.moving_replica import ChangedError, Move, NoRoomError
from jbodlab.log import names
from jbodlab.log.replica_copy import CopyPoint, SegmentFiles, align
from jbodlab.log.replica_log import ReplicaLog

PIECE_BYTES = 256 << 20
"""Room in the target is asked for by pieces of this size; a thread copies one after the other."""

CLOSE_BYTES = 1 << 20
"""A copy that lacks no more than this has caught up: it takes a millisecond or so."""


class CopyRounds:
    """The rounds of all moves of a broker.

    Args:
        throttle: The pace of all of them.
    """

    def __init__(self, throttle: MoveThrottle) -> None:
        self._throttle = throttle

    async def copy_round(self, move: Move) -> int:
        """Copy what the log has and the copy has not; returns how many bytes that was."""
        log, future, copy = move.log.log, move.future, move.copy
        assert future is not None
        assert copy is not None
        if move.aside is not None and not move.aside.done():
            # A round that was given up may have left a call behind, which writes when it can.
            await asyncio.wait([move.aside])
        point = await move.source.run(log.copy_point)
        self.note(move, point)
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

    def note(self, move: Move, point: CopyPoint) -> None:
        """Take notice of what the log consists of."""
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
            self.check_room(move, wanted)
            move.target.space.charge(wanted)
            try:
                copying = run_aside(
                    partial(copy.copy, source, target, move.position, end),
                    f"move {move.topic_partition}",
                )
                move.aside = copying
                reached = await asyncio.shield(copying)
            except SegmentGoneError as error:
                raise ChangedError(str(error)) from error
            finally:
                move.target.space.settle(wanted)
            move.position = reached
            if reached < end:
                raise ChangedError("the log was cut")

    def _piece_bytes(self) -> int:
        rate = self._throttle.rate
        return PIECE_BYTES if not rate else max(min(PIECE_BYTES, rate), CLOSE_BYTES)

    def check_room(self, move: Move, size: int) -> None:
        """Check that the target has room for so many bytes.

        Raises:
            NoRoomError: it has not.
        """
        if not move.target.space.disk.has_room(size):
            raise NoRoomError(move.target.path, size)

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
            writing = run_aside(
                partial(copy.write_files, future.directory, files, is_whole=is_whole),
                f"move {move.topic_partition}",
            )
            move.aside = writing
            await asyncio.shield(writing)
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
