from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from broker.open_files import most_connections

SHOW = (
    "import resource; from broker.open_files import raise_open_files_limit; "
    "raise_open_files_limit(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
)


def test_connections_leave_half_of_all_files_to_the_logs() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert most_connections(2**31 - 1) == soft // 2
    assert most_connections(7) == 7


@pytest.mark.process
def test_soft_limit_of_open_files_becomes_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = subprocess.run(
        ["sh", "-c", 'ulimit -S -n 128; exec "$0" -c "$1"', sys.executable, SHOW],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert int(shown.stdout) == hard
