"""Copies the bytes of one replica's segments from disk to disk, on a separate thread of the move.

The threads of both directories keep serving meanwhile, so a hung disk does not affect the other
directory. An error of the combined system call may belong to
either file. To find out, the same bytes are read alone: if that succeeds, the target failed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TypeVar

from broker.bounds.limits import COPY_WRITE_BACK_BYTES
from broker.disk.calls import ReplicaLostError
from broker.moves.future_throttle import MoveThrottle
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import CopySource, CopyTarget, FileSystem
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.threads import Threads

T = TypeVar("T")


class Side(Enum):
    """Which of the two directories."""

    SOURCE = auto()
    TARGET = auto()


class CopyError(JbodlabError):
    """A copy went wrong; `error` is an `OSError`, or the loss of a replica's folder."""

    def __init__(self, side: Side, error: OSError | ReplicaLostError) -> None:
        super().__init__(str(error))
        self.side = side
        self.error = error


class SegmentGoneError(JbodlabError):
    """The segment was deleted in the source since it was listed."""


class FutureCopy:
    """The way from one directory to another, for the thread of one move.

    Args:
        source: The source's disk for this thread, and what to call in the end.
        target: The same of the target.
        throttle: The pace of all moves.
        threads: Where the thread of the move comes from.
        monotonic_s: A clock.
        is_resumed: Whether a part of the copy was made earlier, and may not be on the disk.

    Attributes:
        position: Up to where the segment that is being copied was copied.
    """

    def __init__(
        self,
        source: tuple[FileSystem, Callable[[], None]],
        target: tuple[FileSystem, Callable[[], None]],
        throttle: MoveThrottle,
        *,
        threads: Threads,
        monotonic_s: Callable[[], float],
        is_resumed: bool = False,
    ) -> None:
        self._source, self._leave_source = source
        self._target, self._leave_target = target
        self._throttle = throttle
        self._threads = threads
        self._monotonic_s = monotonic_s
        self._is_resumed = is_resumed
        self._stop = threads.flag()
        self.position = 0
        self.is_paced = True
        """Whether the pace is kept; what is copied counts in any case."""
        self._unsynced: dict[str, None] = {names.PARTITION_METADATA_FILE: None}
        """Names of files; their folder is renamed in the end. That one was written at creation."""

    def stop(self) -> None:
        """Let the thread end at the next chunk; nothing is copied any more."""
        self._stop.set()
        self._leave_source()
        self._leave_target()

    def copy(self, source: Path, target: Path, start: int, end: int) -> int:
        """Copy the bytes from `start` to `end` to the same place of another file.

        Returns:
            Up to where it was copied: less than `end` if the source was cut, or it was stopped.

        Raises:
            SegmentGoneError: there is no such file in the source any more.
            CopyError: one of the disks failed.
        """
        # Clients wait for the other threads.
        self._threads.lower_priority()
        try:
            reader = _of(Side.SOURCE, lambda: self._source.open_source(source))
        except CopyError as error:
            if isinstance(error.error, FileNotFoundError):
                raise SegmentGoneError(str(source)) from error
            raise
        try:
            self._unsynced[target.name] = None
            writer = _of(Side.TARGET, lambda: self._target.open_target(target))
            try:
                return self._copy(reader, writer, start, end)
            finally:
                with contextlib.suppress(OSError):
                    writer.close()
        finally:
            with contextlib.suppress(OSError):
                reader.close()

    def copy_small_files(
        self, source: Path, target: Path, base_offset: int, *, is_whole: bool
    ) -> None:
        """Copy the small files of a segment, those of a whole one or of the last one.

        Raises:
            SegmentGoneError: the segment is not in the source any more.
            CopyError: one of the disks failed.
        """
        found = [names.snapshot_file(base_offset)]
        if is_whole:
            found += [
                names.index_file(base_offset),
                names.time_index_file(base_offset),
                names.txn_index_file(base_offset),
            ]
        for name in found:
            try:
                data = _of(Side.SOURCE, partial(self._source.read_bytes, source / name))
            except CopyError as error:
                if not isinstance(error.error, FileNotFoundError):
                    raise
                if name == names.index_file(base_offset):
                    raise SegmentGoneError(str(source / name)) from error
                # Not every segment has a snapshot, and few have aborted transactions.
                continue
            self._write(target / name, data)

    def sync(self, folder: Path) -> None:
        """Return when all that was copied and written so far is on the disk."""
        if self._is_resumed:
            found = _of(Side.TARGET, lambda: self._target.listdir(folder))
            self._unsynced |= dict.fromkeys(found)
        if not self._unsynced:
            return
        for name in self._unsynced:
            _of(Side.TARGET, partial(self._sync, folder / name))
        _of(Side.TARGET, lambda: self._target.fsync_dir(folder))
        self._unsynced.clear()
        self._is_resumed = False

    def _write(self, path: Path, data: bytes) -> None:
        self._unsynced[path.name] = None
        _of(Side.TARGET, lambda: self._target.write_bytes(path, data, sync=False))

    def _sync(self, path: Path) -> None:
        if self._stop.is_set():
            return
        # The replica serves already: retention or a truncation may have taken the segment away.
        with contextlib.suppress(FileNotFoundError):
            self._write_back(path)
            self._target.fsync_file(path)

    def _write_back(self, path: Path) -> None:
        """Hand a file to the disk in pieces, with as much time between them as each takes.

        Appends to other files of that disk would wait behind all that is queued.
        """
        position = 0
        while not self._stop.is_set():
            begun_s = self._monotonic_s()
            written = self._target.write_back(path, position, COPY_WRITE_BACK_BYTES)
            if not written:
                return
            position += written
            self._stop.wait(self._monotonic_s() - begun_s)

    def _copy(self, reader: CopySource, writer: CopyTarget, start: int, end: int) -> int:
        position = start
        while position < end:
            chunk = self._throttle.next_chunk(self._stop, is_paced=self.is_paced)
            if not chunk:
                break
            wanted = min(chunk, end - position)
            copied = self._copy_chunk(reader, writer, position, wanted)
            if copied < chunk:
                self._throttle.came_short(chunk - copied)
            if not copied:
                break
            position += copied
            self.position = position
        return position

    def _copy_chunk(self, reader: CopySource, writer: CopyTarget, position: int, size: int) -> int:
        try:
            return writer.copy_from(reader, position, size)
        except OSError as error:
            _of(Side.SOURCE, lambda: reader.pread(size, position))
            raise CopyError(Side.TARGET, error) from error


def _of(side: Side, function: Callable[[], T]) -> T:
    """Do something on one of the disks, and say so if it fails."""
    try:
        return function()
    except (OSError, ReplicaLostError) as error:
        raise CopyError(side, error) from error
