"""The commands, started so that an interrupt leaves nothing behind, not even a trace.

What a command imports takes a second or two. Until it is there nothing has begun that would have to
be ended; from then on the command itself hears of interrupts.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from types import FrameType

from analytics.errors import ReplayInputError
from analytics.source.requirements import FOR_LOGS, FOR_REPLAY, check_requirements
from jbodlab.command_line import INTERRUPTED, until_closed


def replay(arguments: Sequence[str] | None = None) -> int:
    """Run `jbod-replay`; returns its exit code.

    Args:
        arguments: Of its command line; those of this process without it.
    """
    return _run("jbod-replay", FOR_REPLAY, "analytics.job.command", arguments)


def why(arguments: Sequence[str] | None = None) -> int:
    """Run `jbod-why`; returns its exit code.

    Args:
        arguments: Of its command line; those of this process without it.
    """
    return _run("jbod-why", FOR_LOGS, "analytics.ask.why", arguments)


def _run(
    command: str, needed: Mapping[str, str], module: str, arguments: Sequence[str] | None
) -> int:
    signal.signal(signal.SIGINT, _leave)
    try:
        check_requirements(command, needed)
    except ReplayInputError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    main = import_module(module).main
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return until_closed(partial(main, arguments))


def _leave(_: int, __: FrameType | None) -> None:
    os._exit(INTERRUPTED)
