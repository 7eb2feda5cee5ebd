"""Processes that are nobody's children."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytest

from fault_injection import processes

DEADLINE_S = 20.0

pytestmark = pytest.mark.process


def test_a_started_process_runs_its_program_and_is_found_by_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    execute = os.execvpe

    def late(*arguments: Any) -> None:
        time.sleep(0.3)
        execute(*arguments)

    monkeypatch.setattr(os, "execvpe", late)
    command = [sys.executable, "-c", "import time; time.sleep(600)", f"of {os.getpid()}"]

    started = processes.start(
        processes.Recipe(
            command=command,
            environment=dict(os.environ),
            output="",
            uid=os.geteuid(),
            gid=os.getegid(),
        )
    )

    assert started is not None
    try:
        assert processes.with_command(command) == started
    finally:
        processes.send(started, signal.SIGKILL)
        processes.wait_ended([started], DEADLINE_S)
