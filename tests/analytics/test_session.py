"""A session leaves the process that starts it as it was."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from analytics.job import session
from analytics.job.session import start_session

DEADLINE_S = 30
WAITS = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]


@pytest.mark.process
def test_an_interrupt_ends_the_processes_of_a_start_and_no_other_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "require_java", lambda: None)
    children = [subprocess.Popen(WAITS, stdout=subprocess.PIPE)]

    def interrupted(_: object) -> SparkSession:
        children.append(subprocess.Popen(WAITS, stdout=subprocess.PIPE))
        raise KeyboardInterrupt

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", interrupted)

    with pytest.raises(KeyboardInterrupt):
        start_session(0)

    other, own = children
    try:
        assert own.wait(DEADLINE_S) == -9
        assert other.poll() is None
    finally:
        for child in children:
            child.kill()
            child.communicate()


@pytest.mark.spark
def test_starting_a_session_leaves_the_environment_as_it_was(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/mine")
    before = dict(os.environ)

    start_session(0)

    assert dict(os.environ) == before
