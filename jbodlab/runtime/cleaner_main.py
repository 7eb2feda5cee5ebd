"""The process that compacts logs for a broker; `cleaner_process` starts it and says why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from jbodlab.runtime.cleaner_process import RATE
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.compaction.compaction_plan import CleaningStoppedError, Rate, RateThrottle
from jbodlab.storage.compaction.compaction_round import CompactionRound
from jbodlab.storage.directory import disk_errors
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.limits import CLEANER_LOOK_S


class ParentProcess:
    """The parent process, which requests rounds; a `Flag` that is set when the parent ends.

    The parent sends only rates while it waits for a response.
    """

    def __init__(
        self, connection: Connection, rate: Rate, monotonic_s: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._rate = rate
        self._monotonic_s = monotonic_s
        self._polled_s = monotonic_s()
        self._is_gone = False

    def set(self) -> None:
        """Treat the parent as dead."""
        self._is_gone = True

    def is_set(self) -> bool:
        """Return whether the parent is dead; polls rarely, as a poll takes longer than a batch."""
        now_s = self._monotonic_s()
        if not self._is_gone and now_s - self._polled_s >= CLEANER_LOOK_S:
            self._polled_s = now_s
            self._hear(0)
        return self._is_gone

    def wait(self, timeout: float, /) -> bool:
        """Wait until the parent is dead, at most `timeout` seconds; returns whether it is dead."""
        if not self._is_gone:
            self._hear(timeout)
        return self._is_gone

    def _hear(self, timeout: float) -> None:
        """Receive at most one message of the parent, within `timeout` seconds."""
        try:
            if self._connection.poll(timeout):
                name, self._rate.bytes_per_second = self._connection.recv()
                assert name == RATE
        except (EOFError, ConnectionError):
            self._is_gone = True


def main() -> None:
    """Serve the requests of the parent process until it closes the connection."""
    environment = system_environment()
    environment.threads.lower_priority()
    connection = Connection(int(sys.argv[1]))
    rate = Rate()
    caller = ParentProcess(connection, rate, environment.monotonic_s)
    cleaning: CompactionRound | None = None
    while True:
        try:
            name, argument = connection.recv()
        except (EOFError, ConnectionError):
            return
        if name == RATE:
            rate.bytes_per_second = argument
            continue
        try:
            if name == "begin":
                # The offset map of the last round may be large.
                cleaning = None
                throttle = RateThrottle(caller, rate, environment.monotonic_s)
                cleaning = CompactionRound(environment.fs_of(argument.folder), argument, throttle)
                answer: tuple[Any, ...] = ("done", cleaning.begin())
            else:
                assert cleaning is not None
                answer = ("done", cleaning.clean(argument))
        except (OSError, MemoryError) as found:
            error = disk_errors.as_os_error(found)
            answer = ("os", error.errno, error.strerror, error.filename)
        except CorruptRecordError as error:
            answer = ("corrupt", error.path, error.position, error.reason)
        except CleaningStoppedError as error:
            answer = ("stopped", str(error))
        try:
            connection.send(answer)
        except ConnectionError:
            return
