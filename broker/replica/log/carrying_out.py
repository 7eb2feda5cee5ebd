"""Carries out the changes of one directory's logs, and keeps those for which the disk has no space.

Batches have offsets long before they are written, and later batches rely on them. So a write that
meets a full disk can be neither refused nor rolled back. It is kept and retried; later changes of
the same log queue behind it, and other logs continue. The same applies to a change for which the
process lacked descriptors or memory, which is not a disk failure. None of these records was
acknowledged, and the state on the event loop is correct: the files are behind it for longer than
usual (`LogFiles.is_behind`), and readers see the written part.

Only one kind of change overtakes kept ones: segments and snapshots that retention deletes, if no
kept change concerns them. Otherwise a disk that only retention can free would stay full.

Everything runs on the directory's thread. The loop learns the results in the order of the calls.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from broker.disk.calls import ReplicaLostError, WaitsForRoomError, fsync_or_fail
from broker.disk.slowness import IoSamples, TimedWork
from jbodlab.storage.directory import disk_errors
from jbodlab.storage.directory.disk_errors import OutOfRoomError
from jbodlab.storage.log.instructions import (
    CutSegment,
    Instruction,
    Instructions,
    RemoveSnapshots,
    ReplaceSegments,
    SetAside,
    SyncRequest,
    WriteEpochs,
    WriteSnapshot,
)
from jbodlab.storage.log.log_files import LogFiles

T = TypeVar("T")

logger = logging.getLogger(__name__)


class LogChange(msgspec.Struct, eq=False):
    """Instructions for the files of one log, and who wants to know when they are carried out.

    Attributes:
        size: Bytes that it adds to the directory.
        sync: Sync that must reach the disk as well before the change counts as carried out.
        done: Called on the loop with None, or with what went wrong.
        told: Called on the loop behind all that is done of its log in one call.
        blocked: Called on the loop when the log begins to wait for room with this change.
    """

    files: LogFiles
    instructions: Instructions
    size: int
    sync: SyncRequest | None
    done: Callable[[BaseException | None], None]
    told: Callable[[], None]
    blocked: Callable[[], None]


class CallOutcome(NamedTuple):
    """The outcome of one call.

    Attributes:
        finished: Changes that need no more work, with what went wrong, those of a log in order.
        blocked: The logs that wait for room now, and the first change of each.
        cause: Why the disk took no more in this call; None if it was not the disk.
    """

    finished: Sequence[tuple[LogChange, Exception | None]]
    blocked: Mapping[LogFiles, LogChange]
    cause: str | None


class _PendingChange:
    """A change, and what is left of it to do."""

    __slots__ = ("change", "instructions")

    def __init__(self, change: LogChange) -> None:
        self.change = change
        self.instructions: Sequence[Instruction] = change.instructions


class CarryingOut:
    """The changes of one directory.

    Args:
        samples: Where the time is noted that changes take.
        monotonic_s: The clock for that.
    """

    def __init__(self, samples: IoSamples, monotonic_s: Callable[[], float]) -> None:
        self._samples = samples
        self._monotonic_s = monotonic_s
        self._kept: dict[LogFiles, deque[_PendingChange]] = {}
        self._finished: list[tuple[LogChange, Exception | None]] = []
        self._cause: str | None = None

    def carry_out(self, changes: Sequence[LogChange]) -> CallOutcome:
        """Carry out new changes; each log gets one call with all of its own.

        Raises:
            OSError: the disk failed; nothing is known of what has been done, and nothing is kept.
        """
        by_log: dict[LogFiles, deque[_PendingChange]] = {}
        for change in changes:
            by_log.setdefault(change.files, deque()).append(_PendingChange(change))
        begun_s = self._monotonic_s()
        for files, new in by_log.items():
            kept = self._kept.get(files)
            if kept is None:
                self._work(files, new, self._do)
            else:
                kept.extend(new)
                self._work(files, kept, self._run_retention_ahead)
        self._samples.note(TimedWork.APPEND, begun_s, self._monotonic_s())
        return self._outcome()

    def try_again(self) -> CallOutcome:
        """Try again what the disk had no room for; raises as `carry_out`."""
        for files, kept in list(self._kept.items()):
            self._work(files, kept, self._run_retention_ahead)
            if files in self._kept:
                self._work(files, kept, self._do)
        return self._outcome()

    def give_up(self, files: LogFiles) -> CallOutcome:
        """Drop what is kept of a log that nobody will use any more."""
        for left in self._kept.pop(files, ()):
            self._finished.append((left.change, WaitsForRoomError(files.topic_partition)))
        return self._outcome()

    def _outcome(self) -> CallOutcome:
        finished, self._finished = self._finished, []
        cause, self._cause = self._cause, None
        blocked = {files: kept[0].change for files, kept in self._kept.items()}
        return CallOutcome(finished, blocked, cause)

    def _work(
        self,
        files: LogFiles,
        left: deque[_PendingChange],
        step: Callable[[LogFiles, deque[_PendingChange]], None],
    ) -> None:
        """Do something for one log; what is wrong with it alone does not fail its neighbours."""
        try:
            step(files, left)
        except OSError:
            # The loop ends whatever is kept here.
            self._kept.clear()
            self._finished.clear()
            raise
        except Exception as error:
            if not isinstance(error, ReplicaLostError):
                logger.exception("a change of the log of %s failed", files.topic_partition)
            # Else the disk is healthy, and whoever takes the replica offline says why.
            self._finished.extend((one.change, error) for one in left)
            left.clear()
        if left:
            files.is_behind = True
            self._kept[files] = left
        elif files.is_behind:
            files.is_behind = False
            self._kept.pop(files, None)

    def _do(self, files: LogFiles, left: deque[_PendingChange]) -> None:
        """Carry out as much as there is room for."""
        if len(left) == 1:
            instructions = left[0].instructions
        else:
            instructions = [each for one in left for each in one.instructions]
        count = len(instructions)
        try:
            files.carry_out(instructions)
        except OutOfRoomError as error:
            self._note(files, error)
            count = error.carried_out
        # All that is carried out is taken off at once: nothing may be carried out twice.
        for one in left:
            done = min(count, len(one.instructions))
            one.instructions = one.instructions[done:]
            count -= done
            if one.instructions:
                break
        while left and not left[0].instructions:
            change = left[0].change
            if change.sync is not None:
                try:
                    fsync_or_fail(partial(files.sync, files.fs, change.sync))
                except (OSError, MemoryError) as error:
                    if not disk_errors.is_shortage(error):
                        raise
                    self._note(files, disk_errors.as_os_error(error))
                    break
            left.popleft()
            self._finished.append((change, None))

    def _run_retention_ahead(self, files: LogFiles, left: deque[_PendingChange]) -> None:
        """Carry out in front of what is kept what drops other segments than it writes."""
        segments: set[int] = set()
        snapshots: set[int] = set()
        for one in left:
            stays: list[Instruction] = []
            for number, instruction in enumerate(one.instructions):
                match instruction:
                    case SetAside(base_offset):
                        passes = base_offset not in segments
                    case RemoveSnapshots(offsets):
                        passes = snapshots.isdisjoint(offsets)
                    case _:
                        passes = False
                if passes and self._passed(files, instruction):
                    continue
                if isinstance(instruction, SetAside | CutSegment):
                    # Segments go in their order, so that a death in between leaves no gap.
                    one.instructions = (*stays, *one.instructions[number:])
                    return
                stays.append(instruction)
                match instruction:
                    case WriteSnapshot(offset):
                        snapshots.add(offset)
                    case WriteEpochs() | RemoveSnapshots():
                        pass
                    case ReplaceSegments(former):
                        segments.update(former)
                    case _:
                        segments.add(instruction.base_offset)
            one.instructions = stays

    def _passed(self, files: LogFiles, instruction: Instruction) -> bool:
        try:
            files.carry_out((instruction,))
        except OutOfRoomError as error:
            self._note(files, error)
            return False
        return True

    def _note(self, files: LogFiles, error: OSError) -> None:
        if disk_errors.is_no_space(error):
            self._cause = disk_errors.describe(error)
        elif not files.is_behind:
            logger.warning(
                "changes of %s are waiting for file descriptors or memory and will be retried: %s",
                files.topic_partition,
                disk_errors.describe(error),
            )


def require_complete(files: LogFiles, function: Callable[[], T]) -> T:
    """Call a function that needs every batch of a log in its files; on the directory's thread.

    Raises:
        WaitsForRoomError: changes of the log still wait for space.
    """
    if files.is_behind:
        raise WaitsForRoomError(files.topic_partition)
    return function()
