"""Snapshots of the controller's metadata, written on a separate thread.

The log's thread could write them, but every response waits for that thread. Only cleaning runs
there, because it changes the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from controller.lead.leadership import Leadership
from controller.quorum.log_thread import LogThread
from controller.quorum.replicated_log import Committed
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshotter import Snapshotter
from jbodlab.runtime.threads import Threads
from jbodlab.vocabulary.errors import LogDirError

T = TypeVar("T")


class ControllerSnapshotter:
    """Writes snapshots of what is committed, and cleans the log behind them.

    Args:
        leadership: Has the committed image, and tells of everything committed.
        log: Its log, used on `log_thread` only.
        log_thread: The log's thread.
        settings: When a snapshot is due, and how much is kept.
        appended_bytes: Size of the log behind its newest snapshot.
        threads: Where the thread of the snapshots comes from.
        monotonic_s: A clock that never goes back.
    """

    def __init__(
        self,
        *,
        leadership: Leadership,
        log: MetadataLog,
        log_thread: LogThread,
        settings: MetadataLogSettings,
        appended_bytes: int,
        threads: Threads,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._leadership = leadership
        self._log = log
        self._log_thread = log_thread
        self._settings = settings
        self._thread = LogThread(threads, "metadata-snapshot")
        self.snapshots = Snapshotter(
            settings=settings,
            fs=log.fs,
            directory=log.directory,
            image=self._committed_image,
            run=self._run,
            clean=self._clean,
            monotonic_s=monotonic_s,
            wall_ms=leadership.wall_ms,
            appended_bytes=appended_bytes,
        )
        leadership.add_listener(self)

    def committed(self, committed: Committed) -> None:
        """Take note of new batches."""
        self.snapshots.appended(sum(len(data) for _, data in committed.batches))

    async def run(self) -> None:
        """Write snapshots when they are due; runs until cancelled.

        Raises:
            LogDirError: the metadata directory has failed.
        """
        try:
            await self.snapshots.run()
        except OSError as error:
            raise LogDirError(self._log.directory, None, str(error)) from error
        finally:
            self._thread.stop()

    def _committed_image(self) -> MetadataImage | None:
        image = self._leadership.committed_image
        # It ends earlier while a transaction is open.
        is_whole = image.offset + 1 == self._leadership.committed_end_offset
        return image if is_whole else None

    def _run(self, function: Callable[[], T], /) -> Awaitable[T]:
        return self._thread.run(function)

    async def _clean(self) -> None:
        now_ms = self._leadership.wall_ms()
        await self._log_thread.run(partial(self._log.clean, self._settings, now_ms))
