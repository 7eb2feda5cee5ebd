"""A session leaves the process that starts it as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.job import session
from analytics.job.session import end_started, start_session

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30
START_DEADLINE_S = 120
WAITS = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    # The session of other tests is not to be ended.
    monkeypatch.setattr(session, "STARTER", "of a test")
    with ExitStack() as stack:
        yield stack


def child(children: ExitStack) -> subprocess.Popen[bytes]:
    """Start a process that waits."""
    process = subprocess.Popen(WAITS, stdout=subprocess.PIPE)
    children.enter_context(process)
    children.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    return process


@pytest.mark.process
def test_an_interrupt_ends_the_processes_of_the_session_and_no_other_child(
    children: ExitStack,
) -> None:
    other = child(children)
    with session.environment_of_start():
        own = child(children)

    end_started()

    assert own.wait(DEADLINE_S) == -9
    assert other.poll() is None


@pytest.mark.process
def test_an_interrupt_does_not_miss_a_process_that_is_only_forked(children: ExitStack) -> None:
    other = child(children)
    forked = os.fork()
    if not forked:
        time.sleep(0.2)
        os.execve("/bin/sleep", ["sleep", "20"], {session.STARTED_BY: session.STARTER})

    end_started()

    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == -9
    assert other.poll() is None


@pytest.mark.spark
def test_starting_a_session_leaves_the_environment_as_it_was(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/mine")
    before = dict(os.environ)

    start_session(0)

    assert dict(os.environ) == before


@pytest.mark.spark
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a machine another name")
def test_a_session_starts_on_a_machine_whose_name_has_no_address() -> None:
    code = "from analytics.job.session import start_session; start_session(0).stop()"
    named = ["unshare", "--uts", "sh", "-c", 'hostname no-such-machine && exec "$@"', "sh"]

    done = subprocess.run(
        [*named, sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=START_DEADLINE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
