"""A killed process leaves nothing that runs, and a folder that the next one removes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cluster import wait_for
from lab.machine import processes
from lab.machine.folders import make_folder, remove_folder, remove_leftovers

pytestmark = pytest.mark.process

LEAVE_BEHIND = """
import os, signal, subprocess, sys
from lab.machine import processes
from lab.machine.folders import make_folder
folder = make_folder()
command = [sys.executable, "-c", "import time; time.sleep(600)"]
child = processes.start(
    processes.ending_with_us(command) if sys.argv[1] == "ends" else command,
    user=processes.own_user(), log_file=folder / "log",
    environment={**os.environ, processes.CLUSTER_VARIABLE: str(folder / "cluster")},
)
print(folder, child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def leave_behind(how: str) -> tuple[Path, int]:
    done = subprocess.run(
        [sys.executable, "-c", LEAVE_BEHIND, how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    folder, pid = done.stdout.split()
    return Path(folder), int(pid)


def runs(pid: int) -> bool:
    found = processes.find(pid)
    return found is not None and processes.is_alive(found)


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_servers_end_with_the_process_that_started_them() -> None:
    folder, pid = leave_behind("ends")
    wait_for(f"the end of {pid}", lambda: not runs(pid))
    remove_folder(folder)


def test_what_a_killed_process_left_is_ended_and_removed() -> None:
    folder, pid = leave_behind("stays")
    own = make_folder()
    assert runs(pid)

    assert folder in remove_leftovers()

    assert not runs(pid)
    assert not folder.exists()
    assert own.exists(), "what belongs to a living process stays"
    assert own.name.startswith(f"jbodlab-of-{os.getpid()}-")
    remove_folder(own)
