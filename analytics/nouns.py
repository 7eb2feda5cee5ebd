"""`jbodlab replay`, `why`, and the log as a source of `what-if`: arguments, and how they start.

The modules that they import take a second or two. An interrupt before everything is there leaves
nothing behind, not even a trace; from then on the command itself handles interrupts.
"""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING

from analytics.source.requirements import FOR_REPLAY, check_requirements
from jbodlab.cli.command_line import INTERRUPTED
from jbodlab.cli.output import Output

if TYPE_CHECKING:
    from jbodlab.what_if.cluster import Cluster


def replay(options: Namespace, output: Output) -> int:
    """Replay metadata logs into tables and a report; returns the exit code."""
    return _carried_out("replay", "job.command", options, output)


def why(options: Namespace, output: Output) -> int:
    """Tell why a partition, a directory or a broker is as it is; returns the exit code."""
    return _carried_out("why", "ask.why", options, output)


def _carried_out(noun: str, module: str, options: Namespace, output: Output) -> int:
    """Carry a command out by the `run` of a module, which is imported now."""
    before = signal.signal(signal.SIGINT, _leave)
    try:
        check_requirements(f"jbodlab {noun}", FOR_REPLAY)
        carry_out = import_module(f"{__package__}.{module}").run
    finally:
        signal.signal(signal.SIGINT, before)
    code: int = carry_out(options, output)
    return code


def _leave(_: int, __: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def read_what_if_source(options: Namespace, output: Output) -> Cluster:
    """Read a cluster from a metadata log, for `jbodlab what-if`.

    Raises:
        ReplayInputError: there is no answer.
    """
    check_requirements("jbodlab what-if", FOR_REPLAY)
    from analytics.ask.what_if import read

    return read(options, output)
