"""Snapshots of the controller's metadata, written on a separate thread.

The log's thread could write them, but every response waits for that thread. Only cleaning runs
there, because it changes the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from controller.lead.committed_state import CommittedState
from controller.quorum.log_thread import LogThread
from controller.quorum.replicated_log import Committed
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshotter import Snapshotter
from jbodlab.metadata.records.control_records import ControlRecord
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import Offset
from jbodlab.vocabulary.threads import Threads

T = TypeVar("T")


class SnapshotQuorum(Protocol):
    """A quorum, which followers ask for snapshots."""

    @property
    def has_begun(self) -> bool:
        """Whether the log was read, and `records_at` has an answer."""

    def records_at(self, offset: Offset) -> Sequence[ControlRecord]:
        """Return the records about the quorum that counted at an offset."""

    def snapshots_changed(self) -> None:
        """Take note that there is another snapshot, and that the log may begin later."""


class ControllerSnapshotter:
    """Writes snapshots of what is committed, and cleans the log behind them; a commit listener.

    Args:
        committed: The committed state of this node, which the snapshots hold.
        log: The metadata log, used on `log_thread` only.
        log_thread: The log's thread.
        settings: When a snapshot is due, and how much is kept.
        appended_bytes: Size of the log behind its newest snapshot.
        threads: Where the thread of the snapshots comes from.
        monotonic_s: A clock that never goes back.
        wall_ms: Milliseconds since 1970.
        quorum: The quorum that the log is of.
    """

    def __init__(
        self,
        *,
        committed: CommittedState,
        log: MetadataLog,
        log_thread: LogThread,
        settings: MetadataLogSettings,
        appended_bytes: int,
        threads: Threads,
        monotonic_s: Callable[[], float],
        wall_ms: Callable[[], int],
        quorum: SnapshotQuorum,
    ) -> None:
        self._committed = committed
        self._wall_ms = wall_ms
        self._log = log
        self._log_thread = log_thread
        self._settings = settings
        self._quorum = quorum
        self._thread = LogThread(threads, "metadata-snapshot")
        self.snapshots = Snapshotter(
            settings=settings,
            fs=log.fs,
            directory=log.directory,
            image=self._committed_image,
            run=self._run,
            clean=self._clean,
            monotonic_s=monotonic_s,
            wall_ms=wall_ms,
            appended_bytes=appended_bytes,
            quorum=quorum.records_at,
        )

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
        if self._committed.transaction_is_open or not self._quorum.has_begun:
            return None
        return self._committed.image

    def _run(self, function: Callable[[], T], /) -> Awaitable[T]:
        return self._thread.run(function)

    async def _clean(self) -> None:
        await self._log_thread.run(partial(self._log.clean, self._settings, self._wall_ms()))
        self._quorum.snapshots_changed()
