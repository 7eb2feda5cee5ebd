"""Heals a fault at the end of its length, whatever becomes of whoever injected it.

A process of its own sleeps until then; the journal knows it, and whoever heals the fault earlier
ends it.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from fault_injection import processes
from fault_injection.journal import Fault, Journal
from jbodlab.program_names import ROOT, name_of


def spawn(fault: Fault, journal: Journal) -> None:
    """Start the process that heals a fault after its length."""
    command = [sys.executable, "-m", name_of("fault_injection"), "heal", str(fault.fault_id)]
    command += ["--at", str(fault.until_ns), "--journal", str(journal.path)]
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
    if started is not None:
        journal.write("timer", fault.fault_id, pid=started.pid, start_ticks=started.start_ticks)


def wait_until(at_ns: int) -> None:
    """Sleep until a moment of the monotonic clock."""
    while (left_ns := at_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)


def end(fault: Fault) -> None:
    """End the process that waits to heal a fault, unless that is this one."""
    if fault.timer is not None and fault.timer.pid != os.getpid():
        processes.send(fault.timer, signal.SIGTERM)
