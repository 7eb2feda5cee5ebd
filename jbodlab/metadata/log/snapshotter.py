"""When a snapshot is written, and doing it; the same on controllers and brokers.

A snapshot is due when enough bytes were appended since the last one, or enough time has passed
since then and a record was appended. The image is immutable, so the snapshot is written while other
work runs: piece by piece on a thread, with a pause as long as a piece took between two pieces.

Source: `org.apache.kafka.image.publisher.SnapshotGenerator`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshot_writer import SnapshotWriter
from jbodlab.metadata.records.control_records import ControlRecord
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.errors import KafkaError, LogDirError
from jbodlab.vocabulary.ids import Offset
from jbodlab.vocabulary.limits import LONG_PIECE_S

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Run(Protocol):
    """Runs blocking calls in order on the thread where snapshots are written."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Run a function."""


class SnapshotTrigger:
    """Counts the bytes appended since the last snapshot."""

    def __init__(self, settings: MetadataLogSettings, *, appended_bytes: int, now_ms: int) -> None:
        self._bytes_max = settings.bytes_between_snapshots
        self._interval_ms = settings.snapshot_interval_ms
        self._bytes = appended_bytes
        self._since_ms = now_ms

    def appended(self, size: int) -> None:
        """Count appended bytes."""
        self._bytes += size

    def begun(self, now_ms: int) -> None:
        """Restart the count: a snapshot of all records appended so far is being written."""
        self._bytes = 0
        self._since_ms = now_ms

    def due_ms(self, now_ms: int) -> int | None:
        """Return when a snapshot is due without further appends; None if never."""
        if self._bytes >= self._bytes_max:
            return now_ms
        if self._bytes == 0 or self._interval_ms == 0:
            return None
        return self._since_ms + self._interval_ms


class Snapshotter:
    """Writes snapshots of one node's metadata; lives on the event loop.

    Args:
        settings: When a snapshot is due.
        fs: The disk.
        directory: Directory of the metadata log.
        image: The image of the records on the disk; None inside of a metadata transaction, and
            before the start of a quorum.
        run: Runs a call on the thread that writes.
        clean: Called after each snapshot, to remove the log and snapshots that it replaces.
        monotonic_s: A clock that never goes back.
        wall_ms: Milliseconds since 1970.
        appended_bytes: Size of the log behind its newest snapshot.
        quorum: Returns the records about the quorum that counted at the offset of an image.
    """

    def __init__(
        self,
        *,
        settings: MetadataLogSettings,
        fs: FileSystem,
        directory: Path,
        image: Callable[[], MetadataImage | None],
        run: Run,
        clean: Callable[[], Awaitable[object]],
        monotonic_s: Callable[[], float],
        wall_ms: Callable[[], int],
        appended_bytes: int = 0,
        quorum: Callable[[Offset], Sequence[ControlRecord]] = lambda _: (),
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._image = image
        self._run = run
        self._clean = clean
        self._quorum = quorum
        self._monotonic_s = monotonic_s
        self._wall_ms = wall_ms
        self._trigger = SnapshotTrigger(
            settings, appended_bytes=appended_bytes, now_ms=self._monotonic_ms()
        )
        self._appended = asyncio.Event()
        self._life = 0
        self.latest_bytes = 0
        """Size of the last snapshot of this process; 0 before the first."""
        self.latest_ms: int | None = None
        """When it was written, on the monotonic clock."""

    def appended(self, size: int) -> None:
        """Count bytes appended to the log."""
        self._trigger.appended(size)
        self._appended.set()

    def discard(self) -> None:
        """Give up the snapshot that is being written: the log is about to lose its end."""
        self._life += 1

    @property
    def latest_age_ms(self) -> int | None:
        """Time since the last snapshot of this process; None before the first."""
        return None if self.latest_ms is None else self._monotonic_ms() - self.latest_ms

    async def run(self) -> None:
        """Write snapshots when they are due; runs until cancelled.

        Raises:
            OSError, LogDirError: the metadata directory has failed, as `run` words it.
        """
        while True:
            await self._wait_until_due()
            image = self._image()
            if image is None:
                # Only a further batch ends the transaction; a quorum commits one at its start.
                await self._appended.wait()
                continue
            self._trigger.begun(self._monotonic_ms())
            try:
                if await self._write(image):
                    await self._clean()
            except LogDirError:
                raise
            except (KafkaError, OSError) as error:
                if isinstance(error, OSError) and disk_errors.is_directory_failure(error):
                    raise
                # Too many open files, for instance: the next snapshot is another chance.
                logger.warning("cannot write a metadata snapshot: %s", error)
            except Exception:
                # Without a snapshot the log grows and the next start takes longer; all else works.
                logger.exception("cannot write a metadata snapshot")

    async def _wait_until_due(self) -> None:
        while True:
            self._appended.clear()
            now_ms = self._monotonic_ms()
            due_ms = self._trigger.due_ms(now_ms)
            if due_ms is not None and due_ms <= now_ms:
                return
            try:
                async with asyncio.timeout(None if due_ms is None else (due_ms - now_ms) / 1000):
                    await self._appended.wait()
            except TimeoutError:
                continue

    async def _write(self, image: MetadataImage) -> bool:
        """Write a snapshot; returns False if it was given up."""
        begun_s = self._monotonic_s()
        created_ms = self._wall_ms()
        writer = SnapshotWriter(
            self._fs,
            self._directory,
            image,
            created_ms=created_ms,
            quorum=self._quorum(Offset(image.offset)),
        )
        try:
            if not await self._write_pieces(writer):
                return False
        except LogDirError:
            raise
        except Exception:
            await self._run(writer.abandon)
            raise
        self.latest_bytes, self.latest_ms = writer.size_bytes, self._monotonic_ms()
        logger.info(
            "wrote a metadata snapshot",
            extra={
                "path": str(writer.path),
                "size_bytes": writer.size_bytes,
                "duration_ms": int((self._monotonic_s() - begun_s) * 1000),
            },
        )
        return True

    async def _write_pieces(self, writer: SnapshotWriter) -> bool:
        life = self._life
        has_more = True
        while has_more:
            piece_s = self._monotonic_s()
            has_more = await self._run(writer.write_piece)
            await asyncio.sleep(min(self._monotonic_s() - piece_s, LONG_PIECE_S))
            if self._life != life:
                await self._run(writer.abandon)
                return False
        await self._run(writer.finish)
        return True

    def _monotonic_ms(self) -> int:
        return int(self._monotonic_s() * 1000)
