"""Processes are started, found and ended, and no other process is ever touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jbodlab.cli.lab_state import ProcessState
from lab.machine import processes
from lab.machine.processes import CLUSTER_VARIABLE, ServerUser
from lab.machine.waiting import wait_for

pytestmark = pytest.mark.process

OWN_USER = ServerUser(uid=os.geteuid(), gid=os.getegid())
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
SAY_READY = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('ready', flush=True); time.sleep(60)",
]


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


children: list[subprocess.Popen[bytes]] = []


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A cluster's folder; whatever carries its name is ended after the test."""
    folder = tmp_path / "cluster"
    yield folder
    processes.end(processes.of_cluster(folder), deadline_s=0)
    while children:
        children.pop().wait(10)


def start(command: list[str], log_file: Path, root: Path) -> ProcessState:
    environment = {**os.environ, CLUSTER_VARIABLE: str(root)}
    child = processes.start(command, user=OWN_USER, log_file=log_file, environment=environment)
    children.append(child)
    found = processes.find(child.pid)
    assert found is not None
    return found


def wait_for_text(file: Path, text: str) -> None:
    wait_for(f"{text!r} in {file}", lambda: text in file.read_text(), last_seen=file.read_text)


def test_a_process_is_started_in_its_own_session_and_ended(log_file: Path, root: Path) -> None:
    process = start(SLEEP, log_file, root)

    assert processes.is_alive(process)
    assert os.getsid(process.pid) == process.pid
    assert processes.end([process], deadline_s=10) == []
    assert not processes.is_alive(process)


def test_one_that_ignores_the_request_is_killed(log_file: Path, root: Path) -> None:
    process = start(STUBBORN, log_file, root)
    wait_for_text(log_file, "ready")

    assert processes.end([process], deadline_s=0.1) == [process]
    assert not processes.is_alive(process)


def test_a_later_process_with_the_same_pid_is_never_touched() -> None:
    with subprocess.Popen(SLEEP) as other:
        found = processes.find(other.pid)
        assert found is not None
        earlier = ProcessState(pid=found.pid, start_ticks=found.start_ticks - 1)

        assert not processes.is_alive(earlier)
        processes.end([earlier], deadline_s=0.1)

        assert other.poll() is None
        other.kill()


def test_a_process_that_ended_is_not_alive_even_before_anybody_waited() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1
    ) as child:
        found = processes.find(child.pid)
        assert found is not None
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert not processes.is_alive(found)


def test_processes_of_a_cluster_are_found_by_its_folder(log_file: Path, root: Path) -> None:
    process = start(SAY_READY, log_file, root)
    # A process's environment can be read only a moment after it was started.
    wait_for_text(log_file, "ready")

    assert processes.of_cluster(root) == [process]
    assert processes.of_cluster(root.parent) == []


def test_all_processes_of_a_session_are_found(log_file: Path, root: Path) -> None:
    program = (
        "import subprocess, sys, time;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " process_group=0); print('ready', flush=True); time.sleep(60)"
    )
    leader = start([sys.executable, "-c", program], log_file, root)
    wait_for_text(log_file, "ready")

    found = processes.in_session(leader.pid)

    assert leader in found
    assert len(found) == 2
    processes.end(found, deadline_s=10)
    assert processes.in_session(leader.pid) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_starts_servers_as_another_user_without_its_groups(tmp_path: Path) -> None:
    user = ServerUser(uid=1500, gid=1500)

    done = processes.run(["/usr/bin/id"], user=user, environment={})

    assert done.stdout.split()[0].startswith("uid=1500")
    assert "groups=1500" in done.stdout
    assert "root" not in done.stdout


def test_a_command_that_takes_too_long_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run(SLEEP, user=OWN_USER, environment={}, timeout_s=0.2)


def test_signals_reach_only_who_is_meant(log_file: Path, root: Path) -> None:
    first, second = start(SLEEP, log_file, root), start(SLEEP, log_file, root)

    processes.end([first], deadline_s=10)

    assert processes.is_alive(second)
    os.kill(second.pid, signal.SIGKILL)


def test_a_process_that_ends_with_us_outlives_the_thread_that_asked_for_it(
    log_file: Path, root: Path
) -> None:
    def ask() -> None:
        start(processes.ending_with_us(SAY_READY), log_file, root)
        # Now the kernel has been told with whom it ends.
        wait_for_text(log_file, "ready")

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    own = Path(f"/proc/self/task/{thread.native_id}")
    wait_for("the end of the thread", lambda: not own.exists(), last_seen=lambda: own)

    with pytest.raises(subprocess.TimeoutExpired):
        children[-1].wait(0.2)


def test_a_program_whose_name_is_no_text_hides_no_process() -> None:
    naming = "import sys; open('/proc/self/comm', 'wb').write(b'M\\xfc) x'); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", naming], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        known = processes.in_session(os.getsid(child.pid))
        assert child.pid in {one.pid for one in known}
        child.communicate(b"\n")
