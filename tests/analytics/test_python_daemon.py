from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.process
def test_the_parent_of_python_workers_has_no_thread_that_a_fork_would_lose() -> None:
    program = (
        "import analytics.job.python_daemon, os, sys;"
        "assert 'pyarrow' in sys.modules;"
        "print(len(os.listdir('/proc/self/task')))"
    )

    # As Spark starts it: libraries of numbers may use one core.
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("1\n", "")
