from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from analytics.job.session import SMALL_LOG_BYTES


def said_by(program: str) -> tuple[str, str]:
    # As Spark starts it: libraries of numbers may use one core.
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout, done.stderr


@pytest.mark.process
def test_the_parent_of_python_workers_has_no_thread_that_a_fork_would_lose() -> None:
    program = (
        "import analytics.job.python_daemon, os, sys;"
        "assert 'pyarrow' in sys.modules;"
        "print(len(os.listdir('/proc/self/task')))"
    )

    assert said_by(program) == ("1\n", "")


@pytest.mark.process
def test_a_worker_whose_virtual_machine_is_gone_ends_without_a_word() -> None:
    program = (
        "import analytics.job.python_daemon as own, socket\n"
        "def answers(connection, _): return connection.send(b'x')\n"
        "own._work = answers\n"
        "ours, theirs = socket.socketpair()\n"
        "theirs.close()\n"
        "print(own.work(ours, True))"
    )

    assert said_by(program) == ("1\n", "")


@pytest.mark.spark
def test_python_workers_import_nothing_from_the_folder_that_somebody_works_in(
    tmp_path: Path,
) -> None:
    (tmp_path / "analytics.py").write_text("raise RuntimeError('a file of somebody else')")
    program = (
        "from analytics.job.session import start_session;"
        f"spark = start_session({SMALL_LOG_BYTES + 1});"
        "print(spark.range(3).mapInArrow(lambda batches: batches, 'id long').count());"
        "spark.stop()"
    )

    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
