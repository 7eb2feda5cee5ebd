"""Ends the broker of a fault, and starts it again as it had been started before."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import asdict
from typing import Any

import msgspec

from fault_injection import processes
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.mechanism import TargetBroker
from fault_injection.processes import Recipe
from jbodlab.cli.lab_state import ProcessState

RECIPE = "recipe"
"""Where a fault that ends a process keeps how it is started again."""

STOP_DEADLINE_S = 30.0
KILL_DEADLINE_S = 10.0
START_DEADLINE_S = 10.0

_KEPT = frozenset(
    {
        *("PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"),
        *("PYTHONPYCACHEPREFIX", "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONWARNINGS"),
        *("XDG_CACHE_HOME", "XDG_STATE_HOME", "JAVA_HOME", "LOG_DIR"),
        *("JBODLAB_CLUSTER", "JBODLAB_STATE_DIR", "JBODLAB_UID", "JBODLAB_FAULT_RULES"),
    }
)
"""Variables that a server may need, by whole names: the beginning KAFKA_ would take a password."""
_LOCALE = "LC_"


def refusal(broker: TargetBroker, *, must_run: bool) -> str:
    """Return why the process of a broker cannot be ended and started again; empty if it can."""
    if broker.process is None:
        return f"{broker.name} does not run" if must_run else ""
    try:
        owner = processes.recipe(broker.process).uid
    except OSError as error:
        return f"cannot read the process of {broker.name}: {error.strerror}"
    if os.geteuid() not in (0, owner):
        return f"{broker.name} runs as uid {owner}, and this is uid {os.geteuid()}"
    return ""


def planned(broker: TargetBroker) -> dict[str, Any]:
    """Return the process of a broker and how it is started again, as a journal keeps it.

    The journal lies on a disk: of the environment it gets what servers need, and no secret that
    somebody had in the shell.
    """
    assert broker.process is not None
    found = processes.recipe(broker.process)
    kept = {
        name: value
        for name, value in found.environment.items()
        if name in _KEPT or name.startswith(_LOCALE)
    }
    return {
        "process": msgspec.structs.asdict(broker.process),
        RECIPE: {**asdict(found), "environment": kept},
    }


def end(fault: Fault, *, cleanly: bool) -> int:
    """End the broker that a fault names.

    Returns:
        When it was told to, on the monotonic clock: from then on it goes about ending.

    Raises:
        FaultError: it has not ended within the deadline.
    """
    struck_ns = time.monotonic_ns()
    end_process(ProcessState(**fault.undo["process"]), fault.broker, cleanly=cleanly)
    # Another fault may have restarted the broker since this one was planned.
    if (found := running(fault)) is not None:
        end_process(found, fault.broker, cleanly=cleanly)
    return struck_ns


def end_process(process: ProcessState, name: str, *, cleanly: bool) -> None:
    """End a process, by SIGTERM or by SIGKILL.

    Raises:
        FaultError: it has not ended within the deadline.
    """
    deadline_s = STOP_DEADLINE_S if cleanly else KILL_DEADLINE_S
    processes.send(process, signal.SIGTERM if cleanly else signal.SIGKILL)
    if processes.wait_ended([process], deadline_s):
        raise FaultError(f"{name} did not end within {deadline_s:g} s")


def is_struck_alive(fault: Fault) -> bool:
    """Return whether the very process still runs that the fault was to end."""
    return processes.is_alive(ProcessState(**fault.undo["process"]))


def running(fault: Fault) -> ProcessState | None:
    """Return the process that runs the broker now, whoever started it; None if none does."""
    known = fault.undo.get(RECIPE)
    return None if known is None else processes.with_command(known["command"])


def runs_again(fault: Fault) -> bool:
    """Wait until there is a process of the broker; returns whether there is."""
    end_s = time.monotonic() + START_DEADLINE_S
    while running(fault) is None:
        if time.monotonic() > end_s:
            return False
        time.sleep(processes.POLL_S)
    return True


def start(fault: Fault) -> None:
    """Start the broker again, unless it runs.

    Raises:
        FaultError: it is not known how, or that failed.
    """
    known = fault.undo.get(RECIPE)
    if known is None:
        raise FaultError(f"cannot start {fault.broker or fault.path}: its command is unknown")
    try:
        if running(fault) is None:
            processes.start(Recipe(**known))
    except OSError as error:
        raise FaultError(f"cannot start {fault.broker}: {error}") from error
