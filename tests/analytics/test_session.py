"""A session leaves the process that starts it as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from analytics.job import session
from analytics.job.session import end_started, start_session

DEADLINE_S = 30
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
