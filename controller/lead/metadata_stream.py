"""Sends committed batches to every broker, from the offset that it asks for.

Each stream pulls: it sends what its broker lacks, in pieces of limited size, and waits for gRPC to
accept a piece before it reads the next one. So a slow broker delays nobody, and no queue grows.
Recent batches come from memory, older ones from the log. If nothing is written, each stream
confirms the end of the log once a second, so that a broker can distinguish an idle controller from
a broken connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from controller.limits import RECENT_BYTES_MAX, STREAM_KEEP_ALIVE_S, STREAM_PIECE_BYTES
from controller.quorum.log_thread import LogThread
from controller.quorum.replicated_log import Committed, NotLeaderError
from jbodlab.controller_api.requests import (
    MetadataStreamRequest,
    MetadataStreamResponse,
    SnapshotPiece,
)
from jbodlab.metadata.log import snapshots
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.storage.directory.filesystem import CopySource
from jbodlab.vocabulary.ids import UNKNOWN_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset


class _Batch(msgspec.Struct, frozen=True):
    base_offset: Offset
    end_offset: Offset
    data: bytes


class MetadataStream:
    """The batches committed in one term, and the streams that read it; lives on the event loop.

    Args:
        log: The metadata log, read on `log_thread` only.
        log_thread: The thread of the log.
        end_offset: The high watermark.
        leader_id: This node.
        leader_epoch: Of the term.
        kraft_version: Returns the finalized level.
    """

    def __init__(
        self,
        log: MetadataLog,
        log_thread: LogThread,
        end_offset: Offset,
        leader_id: BrokerId,
        leader_epoch: LeaderEpoch,
        kraft_version: Callable[[], int] = lambda: 0,
    ) -> None:
        self._leader_id, self._leader_epoch = leader_id, leader_epoch
        self._kraft_version = kraft_version
        self._log = log
        self._log_thread = log_thread
        self._end_offset = end_offset
        self._recent: deque[_Batch] = deque()
        self._recent_bytes = 0
        self._advanced = asyncio.Event()
        """Set when the end offset advances or the stream closes; then a new one takes its place."""
        self._is_closed = False

    def close(self) -> None:
        """End all subscriptions with `NotLeaderError`: this node does not lead any more."""
        self._is_closed = True
        self._advanced.set()

    def committed(self, committed: Committed) -> None:
        """Take note of new batches, and of the log's end."""
        batches, end_offset = committed.batches, committed.end_offset
        ends = [base for base, _ in batches[1:]] + [end_offset]
        for (base_offset, data), end in zip(batches, ends, strict=True):
            self._recent.append(_Batch(base_offset, end, data))
            self._recent_bytes += len(data)
        while self._recent and self._recent_bytes > RECENT_BYTES_MAX:
            self._recent_bytes -= len(self._recent.popleft().data)
        self._end_offset = end_offset
        # A task that waits holds the old event.
        self._advanced.set()
        self._advanced = asyncio.Event()

    async def subscribe(
        self, request: MetadataStreamRequest
    ) -> AsyncIterator[MetadataStreamResponse]:
        """Yield everything committed from an offset on, for ever.

        A broker whose log has parted from this one is told where to cut; it asks again then.

        Raises:
            NotLeaderError: this node does not lead any more.
        """
        diverging = await self._log_thread.run(partial(self._diverging_end_offset, request))
        if diverging is not None:
            yield self._response(diverging_end_offset=diverging)
            return
        offset = request.fetch_offset
        while not self._is_closed:
            advanced = self._advanced
            if offset >= self._end_offset:
                if not await _within(advanced, STREAM_KEEP_ALIVE_S):
                    yield self._response()
                continue
            found = await self._next(offset)
            if found is None:
                async for piece in self._snapshot():
                    yield self._response(snapshot=piece)
                    offset = piece.end_offset
                continue
            data, offset = found
            yield self._response(records=data)
        raise NotLeaderError

    def _response(self, **content: Any) -> MetadataStreamResponse:
        return MetadataStreamResponse(
            high_watermark=self._end_offset,
            leader_id=self._leader_id,
            leader_epoch=self._leader_epoch,
            kraft_version=self._kraft_version(),
            **content,
        )

    async def _next(self, offset: Offset) -> tuple[bytes, Offset] | None:
        """Return the batches from an offset on, and the offset behind them.

        None if the log does not go back that far any more.
        """
        if self._recent and self._recent[0].base_offset <= offset:
            return self._from_memory(offset)
        return await self._log_thread.run(partial(self._from_log, offset, self._end_offset))

    def _from_memory(self, offset: Offset) -> tuple[bytes, Offset]:
        parts: list[bytes] = []
        size = 0
        end = offset
        for batch in self._recent:
            if batch.end_offset <= offset:
                continue
            if parts and size + len(batch.data) > STREAM_PIECE_BYTES:
                break
            parts.append(batch.data)
            size += len(batch.data)
            end = batch.end_offset
        return b"".join(parts), end

    def _from_log(self, offset: Offset, end_offset: Offset) -> tuple[bytes, Offset] | None:
        """Read committed batches; what was appended and could not be synced is never sent."""
        if offset < self._log.start_offset:
            return None
        return _committed(self._log.read(offset, STREAM_PIECE_BYTES), end_offset)

    def _diverging_end_offset(self, request: MetadataStreamRequest) -> Offset | None:
        """Return where a broker's log must be cut; None if it is a beginning of this one.

        A log that ends before this one begins gets a snapshot, whatever it was. One whose last
        batch is another one than here is that of a controller that was lost: all of it must go.
        """
        if request.fetch_offset < self._log.start_offset:
            return None
        if request.last_fetched_epoch == UNKNOWN_LEADER_EPOCH:
            return None if request.fetch_offset <= self._log.end_offset else Offset(0)
        end_offset = self._log.epoch_end_offset(request.last_fetched_epoch)
        if end_offset < 0:
            # An epoch that never was: the broker's log is not of this cluster's present life.
            return Offset(0)
        if end_offset < request.fetch_offset:
            return Offset(end_offset)
        crc = self._log.crc_before(request.fetch_offset)
        is_known = crc is not None and request.last_fetched_crc is not None
        return Offset(0) if is_known and crc != request.last_fetched_crc else None

    async def _snapshot(self) -> AsyncIterator[SnapshotPiece]:
        """Yield the newest snapshot, with no more than one piece of it in memory."""
        path, file = await self._log_thread.run(self._open_snapshot)
        try:
            end_offset, epoch = snapshots.parse_name(path.name)
            position = 0
            content = await self._log_thread.run(partial(file.pread, STREAM_PIECE_BYTES, position))
            while content:
                position += len(content)
                behind = await self._log_thread.run(
                    partial(file.pread, STREAM_PIECE_BYTES, position)
                )
                yield SnapshotPiece(
                    end_offset=Offset(end_offset),
                    epoch=LeaderEpoch(epoch),
                    content=content,
                    last=not behind,
                )
                content = behind
        finally:
            file.close()

    def _open_snapshot(self) -> tuple[Path, CopySource]:
        """Open the newest snapshot; it stays readable when a newer one takes its place."""
        path = snapshots.latest_snapshot(self._log.directory, fs=self._log.fs)
        # The log's start only moves to a snapshot's end.
        assert path is not None
        return path, self._log.fs.open_source(path)


def _committed(data: bytes, end_offset: Offset) -> tuple[bytes, Offset]:
    """Return the batches below an offset, and the offset behind them."""
    size, end = 0, Offset(-1)
    for position, header in iterate_headers(data):
        if header.next_offset > end_offset:
            break
        size, end = position + header.size, Offset(header.next_offset)
    assert end >= 0
    return data[:size], end


async def _within(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event; returns False if it does not happen in time."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
