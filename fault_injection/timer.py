"""Heals a fault at the end of its length, even if the process that injected it has ended.

A process of its own sleeps until then. It runs before the fault changes anything, and whoever heals
the fault earlier ends it:

    python -m fault_injection.timer ID AT_NS JOURNAL
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from fault_injection import operations, process_control, processes
from fault_injection.errors import FaultError
from fault_injection.journal import Fault, Journal, open_journal
from fault_injection.mechanism import Start
from jbodlab.cli.program_names import ROOT, name_of


def spawn(fault: Fault, journal: Journal) -> None:
    """Start the process that heals a fault after its length, counted from now.

    Raises:
        FaultError: it cannot be started.
    """
    command = [sys.executable, "-m", name_of("fault_injection.timer"), str(fault.fault_id)]
    command += [str(due_ns(fault)), str(journal.path)]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    started = processes.start(
        processes.Recipe(
            command=command,
            environment=environment,
            output="",
            uid=os.geteuid(),
            gid=os.getegid(),
        )
    )
    if started is None:
        raise FaultError("the process that would heal the fault after its length does not run")
    journal.write("timer", fault.fault_id, pid=started.pid, start_ticks=started.start_ticks)


def due_ns(fault: Fault) -> int:
    """Return when a fault that takes effect now ends, on the monotonic clock."""
    assert fault.length_s is not None
    return time.monotonic_ns() + round(fault.length_s * 1e9)


def heal_at(at_ns: int, fault_id: int, journal: Path, start: Start) -> None:
    """Sleep until a fault is due and heal it, unless somebody else does.

    Args:
        at_ns: When it is due if it takes effect at once, on the monotonic clock.
        fault_id: Its number.
        journal: The journal's file.
        start: Starts the broker that the fault ended.

    Raises:
        FaultError: it could not be undone, and stays open.
    """
    due: int | None = at_ns
    while due is not None:
        while (left_ns := due - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)
        # A journal that somebody has removed is not created again.
        if not journal.exists():
            return
        with open_journal(journal) as opened:
            due = operations.heal_if_due(fault_id, opened, start=start)


def main() -> int:
    """Wait and heal one fault; returns the exit code."""
    fault_id, at_ns, journal = sys.argv[1:]
    try:
        heal_at(int(at_ns), int(fault_id), Path(journal), process_control.start)
    except FaultError:
        return 1  # The journal says why.
    return 0


if __name__ == "__main__":
    sys.exit(main())
