"""The commands, started so that an interrupt leaves nothing behind, not even a trace.

What a command imports takes a second or two. Until it is there nothing has begun that would have to
be ended; from then on the command itself hears of interrupts.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from jbodlab.command_line import INTERRUPTED, until_closed


def replay() -> int:
    """Run `jbod-replay`; returns its exit code."""
    _leave_when_interrupted()
    from analytics.job.command import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return until_closed(main)


def why() -> int:
    """Run `jbod-why`; returns its exit code."""
    _leave_when_interrupted()
    from analytics.ask.why import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return until_closed(main)


def _leave_when_interrupted() -> None:
    signal.signal(signal.SIGINT, _leave)


def _leave(_: int, __: FrameType | None) -> None:
    os._exit(INTERRUPTED)
