"""Which tests a run has started that have not ended, said when the run is told to stop.

A run that hangs shows nothing: its workers write to nobody, and one that died says no more. The
process that hands the tests out knows what it has handed out.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from types import FrameType
from typing import NoReturn


class UnfinishedTests:
    """A plugin of the process that hands tests out to workers."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember a test that a worker has begun."""
        self._started[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Forget a test that has ended; that of a worker which died stays."""
        self._started.pop(nodeid, None)

    def interrupt(self, _signal: int, _frame: FrameType | None) -> NoReturn:
        """Say which tests have not ended, and where this process is; then end the run.

        Raises:
            KeyboardInterrupt: always; pytest ends the run with all that it knows.
        """
        now = time.monotonic()
        print(f"stopped; {len(self._started)} started tests have not ended:", file=sys.__stderr__)
        for nodeid, started in self._started.items():
            print(f"  {nodeid} (started {now - started:.0f} s ago)", file=sys.__stderr__)
        assert sys.__stderr__ is not None
        faulthandler.dump_traceback(sys.__stderr__)
        raise KeyboardInterrupt

    def listen(self) -> None:
        """Answer to SIGTERM, which `timeout` sends."""
        signal.signal(signal.SIGTERM, self.interrupt)
