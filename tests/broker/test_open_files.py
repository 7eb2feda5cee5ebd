from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from broker.open_files import divide
from jbodlab.vocabulary.errors import ConfigError

SHOW = (
    "import resource; from broker.open_files import raise_open_files_limit; "
    "raise_open_files_limit(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
)


@pytest.mark.parametrize("directories", [1, 3, 24])
@pytest.mark.parametrize("limit", [256, 300, 512, 1024, 4096, 65_536, 1 << 20])
def test_all_that_may_be_open_fits_the_limit(limit: int, directories: int) -> None:
    found = divide(limit, directories, 2**31 - 1)

    kept = found.kept_per_directory * directories
    assert kept + found.connections + 2 * found.waiting + found.reserve <= limit
    assert min(found.kept_per_directory, found.connections, found.waiting) >= 1
    assert found.reserve >= min(limit // 2, 100)


def test_no_more_connections_than_wanted() -> None:
    assert divide(4096, 3, 7).connections == 7


def test_too_few_open_files_are_refused_by_number() -> None:
    with pytest.raises(ConfigError, match="need more than 64 open files"):
        divide(64, 24, 100)


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
