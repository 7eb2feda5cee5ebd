"""One log directory: its path, its id, its state and its queues.

Three threads touch the directory's files. Each has its own queue and its own view of the disk:

    serving       `run` with `fs`                   appends, reads, truncation: requests wait for it
    upkeep        `upkeep` with `upkeep_fs`         syncs and removals, which may take long
    checkpoints   `checkpoint` with `checkpoint_fs` the checkpoint files only

Calls of one queue run in order; calls of different queues have no order. So upkeep touches only
files that serving has finished with: closed segments, or files that nobody will use again. A file
that it syncs may be truncated or removed meanwhile; the caller checks this when the call returns.
Checkpoints have a separate queue because some truncations wait until a checkpoint is lowered, and
must not wait behind a long call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

from broker.disk.calls import DirectoryExecutor, Fence, FullError, fenced_disk, guarded_disk
from broker.disk.condition import HEALTHY, DirectorySpace, space_text
from broker.disk.directory.lifecycle import LogDirEvent, LogDirState, next_state
from broker.disk.slowness import IoSamples
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory.filesystem import Disk, FileSystem
from jbodlab.storage.log.directory_files import DirectoryFiles
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import LogDirError
from jbodlab.vocabulary.ids import DirectoryId
from jbodlab.vocabulary.limits import OPEN_FILES_MAX

T = TypeVar("T")


class LogDir:
    """One directory of `log.dirs`, or the metadata directory where that is a separate one.

    Attributes:
        path: As configured.
        environment: Clocks, ids and threads for the work in this directory.
        directory_id: None if it was never readable, so that its id is unknown.
        disk: The disk itself.
        fs: The disk as this life of the directory may use it, in the serving queue only; refuses
            everything once the directory is offline.
        upkeep_fs: The same for the queue of the upkeep.
        checkpoint_fs: The same for the queue of the checkpoints.
        files: Open files and indexes; of the serving queue.
        identity: Device and inode at start; None skips the check for a replaced directory.
        cause: Why it is offline; None while it is online.
        revivals: How often it was brought back since the process began.
        replica_count: Current and future replicas in it; kept by whoever owns the replicas.
        is_cordoned: Whether it gets no new replicas; kept by `Cordon`.
        condition: Whether it is full or slow while it is online; kept by `ConditionMonitor`.
        space: How much more may be written to it.
        io_samples: How long its calls took.
    """

    def __init__(
        self,
        path: Path,
        directory_id: DirectoryId | None,
        *,
        environment: Environment | None = None,
        fs: Disk | None = None,
        identity: tuple[int, int] | None = None,
        open_files_max: int = OPEN_FILES_MAX,
    ) -> None:
        self.path = path
        self.environment = environment or system_environment()
        self.directory_id = directory_id
        self.disk = fs or self.environment.fs_of(path)
        self._fence = Fence()
        self._upkeep_fence = Fence()
        self._checkpoint_fence = Fence()
        self._side_fences: list[Fence] = []
        self.files = DirectoryFiles(open_files_max)
        self._open_files_max = open_files_max
        self.fs = self._door(self._fence, identity, self.files.close_idle)
        self.upkeep_fs = self._door(self._upkeep_fence, identity)
        self.checkpoint_fs = self._door(self._checkpoint_fence, identity)
        self.identity = identity
        self.revivals = 0
        self.cause: str | None = None
        self.replica_count = 0
        self.is_cordoned = False
        self.condition = HEALTHY
        self.space = DirectorySpace()
        self.io_samples = IoSamples()
        self._state = LogDirState.INITIAL
        self._report: Callable[[LogDir, str], None] | None = None
        self._serving = self._queue(f"log-dir {path}")
        self.run_then = self._serving.submit_then
        """Runs a function as `run` does, and calls another on the loop with its result or error."""
        self._upkeep = self._queue(f"upkeep {path}")
        self._checkpoints = self._queue(f"checkpoints {path}")

    def __repr__(self) -> str:
        return f"LogDir({self.path}, {self.id_text}, {self._state.name})"

    @property
    def state(self) -> LogDirState:
        """Where it is in its life."""
        return self._state

    @property
    def is_online(self) -> bool:
        """Whether it did not fail; also true before its logs are loaded."""
        return self._state.is_usable

    @property
    def id_text(self) -> str:
        """The directory id as people read it; `unknown` without one."""
        return kafka_uuid.to_text(self.directory_id) if self.directory_id else "unknown"

    @property
    def is_being_written(self) -> bool:
        """Whether a thread is just changing a file, perhaps for ever on a disk that hangs."""
        return any(fence.is_being_written for fence in self._fences)

    @property
    def _fences(self) -> tuple[Fence, ...]:
        return (self._fence, self._upkeep_fence, self._checkpoint_fence, *self._side_fences)

    def running_steps(self) -> dict[Fence, int]:
        """Return the steps of its threads on the disk that have begun and did not come back."""
        return {fence: fence.running_call for fence in self._fences if fence.running_call}

    def side_door(self) -> tuple[FileSystem, Callable[[], None]]:
        """Return the disk for one other thread, to copy files of one replica from here or to here.

        Returns:
            The disk, which like `fs` refuses everything once the directory is offline, and what is
            to be called when the thread has ended.
        """
        fence = Fence()
        if not self.is_online:
            fence.close()
        self._side_fences.append(fence)

        def leave() -> None:
            fence.close()
            # One that hangs in a write counts on.
            self._side_fences = [each for each in self._side_fences if _counts(each)]

        return self._door(fence, self.identity), leave

    @property
    def queues(self) -> dict[str, DirectoryExecutor]:
        """Its queues, by name."""
        return {
            "serving": self._serving,
            "upkeep": self._upkeep,
            "checkpoints": self._checkpoints,
        }

    def log_fields(self) -> dict[str, str]:
        """Return what every line of the log about this directory carries as `extra`."""
        return {"directory_id": self.id_text, "log_dir": str(self.path)}

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run `function` in the serving queue, first in, first out.

        An `OSError` of it takes the directory offline and reports it; the future then gets
        `LogDirError`, as do all that wait behind it and all later ones, at once. A disk that
        takes no more makes it FULL and gives `NoSpaceError`; a lack of descriptors or memory gives
        `ShortageError`; an `OSError` that is the process's own fault in another way gives
        `KafkaError`; other exceptions pass through.
        """
        return self._serving.submit(function)

    def upkeep(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run `function` in the queue of what may take long; else as `run`."""
        return self._upkeep.submit(function)

    def checkpoint(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run `function`, which writes a checkpoint, in the queue of these; else as `run`."""
        return self._checkpoints.submit(function)

    def clean_up(self, function: Callable[[], object]) -> None:
        """Run `function` in the serving queue even after a failure, dropping what it raises."""
        self._serving.clean_up(function)

    def handle(self, event: LogDirEvent) -> None:
        """Move to the state that follows an event that it goes on with."""
        assert event not in (LogDirEvent.FAIL, LogDirEvent.REVIVE)
        self._state = next_state(self._state, event)

    def go_offline(self, cause: str) -> None:
        """Become offline and answer everything that waits; `LogDirs.fail` tells the others."""
        self._state = next_state(self._state, LogDirEvent.FAIL)
        self.cause = cause
        # A thread that comes back late from a disk that hung must find nothing that it may touch:
        # by then the files may belong to the next life.
        for fence in self._fences:
            fence.close()
        for queue in self.queues.values():
            queue.abandon(cause)

    def next_life(self, directory_id: DirectoryId | None, identity: tuple[int, int]) -> Self:
        """Return what continues this directory after its failure, with a thread of its own.

        Args:
            directory_id: The id that is there now; another one if the disk was replaced.
            identity: Device and inode now.
        """
        life = type(self)(
            self.path,
            directory_id,
            environment=self.environment,
            fs=self.disk,
            identity=identity,
            open_files_max=self._open_files_max,
        )
        life._state = next_state(self._state, LogDirEvent.REVIVE)
        life.revivals = self.revivals + 1
        life.is_cordoned = self.is_cordoned
        return life

    def error(self, cause: str | None = None) -> LogDirError:
        """Return the error that callers of a failed directory get."""
        return LogDirError(self.path, self.directory_id, cause or self.cause or "unknown cause")

    def report_failures_to(self, report: Callable[[LogDir, str], None]) -> None:
        """Name who is told, on the loop, when a call failed."""
        self._report = report

    def stop(self) -> None:
        """Let the threads end when their queues are empty."""
        for queue in self.queues.values():
            queue.stop()

    def check_room(self, size_bytes: int) -> None:
        """Check that records of this size may still be written.

        Raises:
            FullError: it is full.
        """
        if not self.space.disk.has_room(size_bytes) and not self.space.takes(size_bytes):
            raise FullError(f"log directory {self.path} is full: {space_text(self.space.disk)}")

    def no_space(self, cause: str) -> None:
        """Take notice that the disk took no more, whatever it had said of its room: it is FULL."""
        if self.is_online:
            self.space.denied(cause, self.environment.monotonic_s())

    def room_again(self) -> None:
        """Take notice that the disk took all that it had had no room for."""
        if self.is_online:
            self.space.taken()

    def _door(
        self,
        fence: Fence,
        identity: tuple[int, int] | None,
        close_idle: Callable[[], bool] = lambda: False,
    ) -> FileSystem:
        return guarded_disk(fenced_disk(self.disk, fence), self.path, identity, close_idle)

    def _queue(self, name: str) -> DirectoryExecutor:
        return DirectoryExecutor(
            name,
            threads=self.environment.threads,
            monotonic_s=self.environment.monotonic_s,
            make_error=self.error,
            on_failure=self._call_failed,
            on_no_space=self.no_space,
            on_shortage=self._short,
        )

    def _short(self) -> None:
        """Close what is kept open, for whichever of its threads tries again."""
        if self.is_online:
            self._serving.clean_up(self.files.close_idle)

    def _call_failed(self, cause: str) -> None:
        if self._report is not None:
            self._report(self, cause)
        elif self.is_online:
            self.go_offline(cause)


def _counts(fence: Fence) -> bool:
    return fence.is_being_written or not fence.is_closed
