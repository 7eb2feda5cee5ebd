"""A run that is cut off names the tests that it has started and that have not ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

CONFTEST = """
from tests.unfinished import UnfinishedTests

class SaysWhenItHangs:
    def pytest_runtest_logstart(self, nodeid):
        if "hangs" in nodeid:
            print("hanging", file=open("hanging", "w"), flush=True)

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        # What is registered last is called first.
        config.pluginmanager.register(SaysWhenItHangs())
        unfinished = UnfinishedTests()
        config.pluginmanager.register(unfinished)
        unfinished.listen()
"""
TESTS = """
import time

def test_ends():
    pass

def test_hangs():
    time.sleep(600)
"""


def test_a_run_that_is_cut_off_names_the_test_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    os.mkfifo(tmp_path / "hanging")
    options = ("-p", "no:cacheprovider", "-n", "1", "--dist", "loadgroup")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        # Opened when the process that hands tests out knows that the test has begun.
        with (tmp_path / "hanging").open() as hanging:
            assert hanging.read() == "hanging\n"
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()

    lines = [line.split(" (started")[0].strip() for line in output.splitlines()]
    assert "test_some.py::test_hangs" in lines
    assert "test_some.py::test_ends" not in lines
    assert process.returncode == 2
