"""Compacts logs in a separate process, so that no client waits for the log cleaner.

Decoding records, hashing their keys and encoding them again is work of the interpreter, which one
thread of a process does at a time. In a thread of the broker this work doubled the time of produce
requests, and made it ten times as long on a busy machine (`bench`, part `cleaner`). The process has
the lowest priority and lives as long as a directory has logs to compact. It reads closed segments
and writes files that no log uses yet; it may be killed at any moment. When its parent process dies,
it ends in the middle of its work: the next process of the broker may write files of these names.

Both sides send pickled tuples over a pair of sockets. A request is a name and its arguments, a
response is a name and a result. The parent sends the rate whenever it changes, also during a round.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from typing import Any

from jbodlab.storage.compaction.compaction_plan import (
    CleanedGroup,
    CleanerDiedError,
    CleaningStoppedError,
    Mapped,
    Rate,
    RoundPlan,
    Throttle,
)
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.limits import CLEANER_END_S, CLEANER_LOOK_S

RATE = "rate"
"""Message type of a rate update; it may be sent at any time and has no reply."""

PROGRAM = "import sys; sys.path[:] = {!r}; import jbodlab.runtime.cleaner_main as p; p.main()"


class CleanerProcess:
    """A `Compactor` whose rounds are made by another process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._throttle: Throttle = _no_throttle
        self._rate = Rate()
        self._told_rate: float | None = None

    def begin(self, fs: FileSystem, plan: RoundPlan, throttle: Throttle, rate: Rate) -> Mapped:
        """Begin a round; see `CompactionRound.begin`."""
        del fs
        self._throttle, self._rate = throttle, rate
        if self._connection is None:
            self._start()
        found = self._ask("begin", plan)
        assert isinstance(found, Mapped)
        return found

    def clean(self, number: int) -> CleanedGroup:
        """Clean a group; see `CompactionRound.clean`."""
        found = self._ask("clean", number)
        assert isinstance(found, CleanedGroup)
        return found

    def close(self) -> None:
        """End the process."""
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            # On a disk that hangs, the process ends when its system call returns.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(CLEANER_END_S)

    def _start(self) -> None:
        ours, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                # The child finds its modules on the same paths as this process.
                [sys.executable, "-c", PROGRAM.format(sys.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                # A key that interrupts the broker is not meant for it.
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        self._connection = ours
        self._told_rate = None

    def _ask(self, *request: object) -> object:
        connection = self._connection
        assert connection is not None
        try:
            self._tell_rate(connection)
            connection.send(request)
            while not connection.poll(CLEANER_LOOK_S):
                self._throttle(0)
                self._tell_rate(connection)
            kind, *answer = connection.recv()
        except (EOFError, ConnectionError) as error:
            process = self._process
            assert process is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(CLEANER_END_S)
            status = process.returncode
            self.close()
            raise CleanerDiedError(
                f"the cleaner process ended with status {status}; -9 usually means that it ran out "
                "of memory: log.cleaner.dedupe.buffer.size limits the memory for keys"
            ) from error
        except CleaningStoppedError:
            self.close()
            raise
        return _result(kind, answer)

    def _tell_rate(self, connection: Connection) -> None:
        rate = self._rate.bytes_per_second
        if rate != self._told_rate:
            connection.send((RATE, rate))
            self._told_rate = rate


def _result(kind: str, answer: list[Any]) -> object:
    """Return the result of a request, or raise its error."""
    match kind:
        case "done":
            return answer[0]
        case "os":
            raise OSError(*answer)
        case "corrupt":
            raise CorruptRecordError(*answer)
    raise CleaningStoppedError(answer[0])


def _no_throttle(_size: int) -> None:
    pass
