"""Brings the copy of a replica up to date, one round after the other.

A round compares the log with the copy and copies what the copy lacks. Separate threads of the moves
copy the bytes; the state of the log is already on the event loop.

Source: KIP-113.
"""

from __future__ import annotations

import asyncio
from functools import partial

from broker.bounds.limits import CLOSE_BYTES, COPY_PIECE_BYTES
from broker.disk.calls import run_aside
from broker.moves.future_copy import SegmentGoneError
from broker.moves.future_throttle import MoveThrottle
from broker.moves.move import ChangedError, Move, NoRoomError
from jbodlab.storage.directory import names
from jbodlab.storage.log.replica_copy import CopyPoint, common_end, mirror, mirrors


class CopyRounds:
    """The rounds of all moves of a broker.

    Args:
        throttle: The pace of all of them.
    """

    def __init__(self, throttle: MoveThrottle) -> None:
        self._throttle = throttle

    async def copy_round(self, move: Move) -> int:
        """Copy what the log has and the copy has not; returns how many bytes that was."""
        log, future, copy = move.log, move.future, move.copy
        assert future is not None
        assert copy is not None
        if move.aside is not None and not move.aside.done():
            # A round that was given up may have left a call behind, which writes when it can.
            await asyncio.wait([move.aside])
        point = self.look(move)
        # The segments of the log may be on their way to the disk.
        await log.barrier()
        if log.is_blocked:
            raise ChangedError("the source directory is full; part of the log is not written yet")
        if not move.is_aligned or move.cut_to is not None:
            await self._align(move, point)
        first = point.segments[0].base_offset
        copied = 0
        for number, segment in enumerate(point.segments):
            if segment.base_offset < move.base_offset:
                continue
            if segment.base_offset > move.base_offset:
                move.bytes_before += move.adopted_size
                move.base_offset = segment.base_offset
                move.adopted_size = move.position = copy.position = 0
            before = move.position
            # A cut, a crash or compaction may have left a segment without a batch. It has a file.
            is_new = segment.base_offset > future.state.active.base_offset
            if is_new or segment.size > move.position:
                await self._copy_segment(move, segment.size)
            copied += move.position - before
            is_whole = segment is not point.segments[-1]
            is_changed = segment.size > move.adopted_size or segment.next_offset != move.end
            if is_whole or is_new or is_changed:
                await self._adopt(move, point, number, is_whole=is_whole)
        if move.end != point.end_offset or not move.is_aligned:
            raise ChangedError("the log was truncated")
        if future.state.first_base_offset < first or (future.start_offset < point.start_offset):
            before = future.state.size_bytes
            future.change(future.state.drop_before(first))
            future.advance_start_to(min(point.start_offset, future.end_offset))
            move.bytes_before -= before - future.state.size_bytes
            await self._carried_out(move)
        return copied

    def look(self, move: Move) -> CopyPoint:
        """Take notice of what the log consists of."""
        point = move.point = CopyPoint.of(move.log.state)
        if point.cut_to is not None:
            known = move.cut_to
            move.cut_to = point.cut_to if known is None else min(known, point.cut_to)
        return point

    async def _align(self, move: Move, point: CopyPoint) -> None:
        """Cut the copy to what it has in common with its log."""
        future, copy = move.future, move.copy
        assert future is not None
        assert copy is not None
        move.is_aligned = False
        first = point.segments[0].base_offset
        end = common_end(future.state, point, move.cut_to)
        if end < max(first, future.state.first_base_offset):
            await future.restart_at(first)
        else:
            await future.truncate(end)
            future.change(future.state.drop_before(first))
            if not mirrors(future.state, point):
                await future.restart_at(first)
            future.advance_start_to(max(future.start_offset, min(point.start_offset, end)))
        await self._carried_out(move)
        whole, last = future.state.closed, future.state.active
        move.base_offset, move.adopted_size = last.base_offset, last.size
        move.position = copy.position = last.size
        move.bytes_before = sum(segment.size for segment in whole)
        move.end = future.end_offset
        move.cut_to = None
        move.is_aligned = True

    async def _carried_out(self, move: Move) -> None:
        """Return when all was done to the copy's files that was asked for.

        Raises:
            NoRoomError: the target has no room for it.
        """
        assert move.future is not None
        await move.future.barrier()
        if move.future.is_blocked:
            raise NoRoomError(move.target.path, 0)

    async def _copy_segment(self, move: Move, size: int) -> None:
        """Copy the segment up to a size, or make its file if there is nothing to copy."""
        future, copy = move.future, move.copy
        assert future is not None
        assert copy is not None
        name = names.log_file(move.base_offset)
        source, target = move.log.files.directory / name, future.files.directory / name
        while True:
            end = min(size, move.position + self._piece_bytes())
            wanted = end - move.position
            self.check_room(move, wanted)
            move.target.space.charge(wanted)
            try:
                copying = run_aside(
                    partial(copy.copy, source, target, move.position, end),
                    f"move {move.topic_partition}",
                    move.target.environment.threads,
                )
                move.aside = copying
                reached = await asyncio.shield(copying)
            except SegmentGoneError as error:
                raise ChangedError(str(error)) from error
            finally:
                move.target.space.settle(wanted)
            move.position = reached
            if reached < end:
                raise ChangedError("the log was truncated")
            if end == size:
                return

    def _piece_bytes(self) -> int:
        rate = self._throttle.rate
        return COPY_PIECE_BYTES if not rate else max(min(COPY_PIECE_BYTES, rate), CLOSE_BYTES)

    def check_room(self, move: Move, size: int) -> None:
        """Check that the target has room for so many bytes.

        Raises:
            NoRoomError: it has not.
        """
        if not move.target.space.disk.has_room(size):
            raise NoRoomError(move.target.path, size)

    async def _adopt(self, move: Move, point: CopyPoint, number: int, *, is_whole: bool) -> None:
        """Take in a segment whose bytes were copied, with the small files that belong to it."""
        future, copy = move.future, move.copy
        assert future is not None
        assert copy is not None
        segment = point.segments[number]
        if is_whole or not move.adopted_size:
            copying = run_aside(
                partial(
                    copy.copy_small_files,
                    move.log.files.directory,
                    future.files.directory,
                    segment.base_offset,
                    is_whole=is_whole,
                ),
                f"move {move.topic_partition}",
                move.target.environment.threads,
            )
            move.aside = copying
            try:
                await asyncio.shield(copying)
            except SegmentGoneError as error:
                raise ChangedError(str(error)) from error
        if move.log.state.cut_count != point.cut_count:
            raise ChangedError("the log was truncated")
        future.change(mirror(future.state, point, number + 1))
        move.adopted_size = segment.size
        move.bytes_before = future.state.size_bytes - segment.size
        move.end = segment.next_offset
