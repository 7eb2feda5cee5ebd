"""The log directories of this broker, and the notification of failures and returns.

Everything here runs on the event loop. `fail` handles a failure in one synchronous call: when it
returns, every listener knows, and no request has seen an intermediate state. `revive` does the same
for the return of a directory, which `revival` prepares.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from broker.disk.directory.lifecycle import LogDirEvent, LogDirState
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.logs_in_use import FoundLog
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import DirectoryId

logger = logging.getLogger(__name__)


class LogDirFailureListener(Protocol):
    """A listener that must know at once that a directory is gone."""

    def log_dir_failed(self, log_dir: LogDir, error: LogDirError) -> None:
        """Take notice, without touching a file of the directory and without waiting."""


class LogDirReturnListener(Protocol):
    """A listener that has to do with a directory that is back."""

    def log_dir_returned(self, former: LogDir, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        """Take it in, without waiting.

        Args:
            former: The directory that failed; it stays offline, and nobody may use it any more.
            log_dir: The directory that took its place, online; a replaced disk has another id.
            logs: The logs that were found in it, of current and of future replicas.
        """


class LogDirs:
    """The directories of `log.dirs`, and the metadata directory where it is a separate one.

    Args:
        all_dirs: In configured order, those included that are offline from the start.
        metadata_dir: The directory of the metadata log; one of `all_dirs`, or a separate one.
        on_fatal: Called with one line when the process must end: the last directory or the
            metadata directory is gone.
    """

    def __init__(
        self,
        all_dirs: Sequence[LogDir],
        *,
        metadata_dir: LogDir,
        on_fatal: Callable[[str], None],
    ) -> None:
        self.all: tuple[LogDir, ...] = tuple(all_dirs)
        self.metadata_dir = metadata_dir
        self._on_fatal = on_fatal
        self._listeners: list[LogDirFailureListener] = []
        self._return_listeners: list[LogDirReturnListener] = []
        for log_dir in self.watched:
            log_dir.report_failures_to(self.fail)

    @property
    def watched(self) -> tuple[LogDir, ...]:
        """All directories whose health matters: `all`, and a separate metadata directory."""
        if self.metadata_dir in self.all:
            return self.all
        return (*self.all, self.metadata_dir)

    @property
    def any_offline(self) -> bool:
        """Whether a replica might be sitting in a directory that this broker cannot read."""
        return any(not log_dir.is_online for log_dir in self.all)

    def online(self) -> list[LogDir]:
        """Return the directories that did not fail, in configured order."""
        return [log_dir for log_dir in self.all if log_dir.is_online]

    def by_id(self, directory_id: DirectoryId) -> LogDir | None:
        """Return the online directory with this id."""
        for log_dir in self.all:
            if log_dir.is_online and log_dir.directory_id == directory_id:
                return log_dir
        return None

    def by_path(self, path: Path | str) -> LogDir | None:
        """Return the directory with this configured path, online or not."""
        wanted = Path(path)
        return next((log_dir for log_dir in self.all if log_dir.path == wanted), None)

    def online_ids(self) -> tuple[DirectoryId, ...]:
        """Return the ids of the online directories in Kafka's order of ids."""
        ids = [log_dir.directory_id for log_dir in self.online() if log_dir.directory_id]
        return tuple(sorted(ids, key=kafka_uuid.order_key))

    def add_failure_listener(self, listener: LogDirFailureListener) -> None:
        """Add who is told of failures; the listeners are told in the order they were added."""
        self._listeners.append(listener)

    def add_return_listener(self, listener: LogDirReturnListener) -> None:
        """Add who is told of a directory that is back; told in the order they were added."""
        self._return_listeners.append(listener)

    def fail(self, log_dir: LogDir, cause: str) -> None:
        """Take a directory offline, and tell everybody once; a second failure changes nothing.

        Everything that waits for the directory's thread gets `LogDirError` now, but its callbacks
        run after the listeners, which therefore are the first to know.
        """
        if not log_dir.is_online:
            return
        if log_dir not in self.watched:
            # It is being revived; for everybody else it has been offline all the time.
            log_dir.go_offline(cause)
            return
        log_dir.go_offline(cause)
        logger.error("%s", log_dir.error(), extra={**log_dir.log_fields(), "cause": cause})
        if log_dir in self.all:
            self._tell(log_dir)
        if log_dir is self.metadata_dir:
            self._on_fatal(f"the metadata log directory {log_dir.path} has failed: {cause}")
        elif not self.online():
            paths = ", ".join(str(each.path) for each in self.all)
            self._on_fatal(f"all log directories have failed ({paths}), the last one with: {cause}")

    def revive(self, former: LogDir, log_dir: LogDir, logs: Sequence[FoundLog]) -> None:
        """Put what was revived in the place of what failed, and tell everybody.

        Args:
            former: The directory that failed.
            log_dir: Its next life, with its logs loaded.
            logs: Logs that were found in it; see `LogDirReturnListener`.
        """
        assert not former.is_online
        assert log_dir.state is LogDirState.RECOVERING
        log_dir.handle(LogDirEvent.LOADED)
        log_dir.report_failures_to(self.fail)
        self.all = tuple(log_dir if each is former else each for each in self.all)
        # Nothing but giving files back is left for its thread to do.
        former.stop()
        for listener in self._return_listeners:
            try:
                listener.log_dir_returned(former, log_dir, logs)
            except Exception:
                # The others must hear of it even if one replica could not be taken in.
                logger.exception(
                    "a listener failed to process a change of the directory's state",
                    extra=log_dir.log_fields(),
                )

    def stop(self) -> None:
        """Let the threads of all directories end when their queues are empty."""
        for log_dir in self.watched:
            log_dir.stop()

    def _tell(self, log_dir: LogDir) -> None:
        for listener in self._listeners:
            try:
                listener.log_dir_failed(log_dir, log_dir.error())
            except Exception:
                # The controller must hear of the failure even if stopping a replica went wrong.
                logger.exception(
                    "a listener failed to process a change of the directory's state",
                    extra=log_dir.log_fields(),
                )
