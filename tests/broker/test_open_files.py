from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from broker.open_files import (
    LOG_FILES_MIN,
    RESERVED,
    RESERVED_OF_A_DIRECTORY,
    FileBounds,
    file_bounds,
)
from jbodlab.errors import ConfigError
from jbodlab.log.directory_files import OPEN_FILES_MAX

ANY = 2**31 - 1
SHOW = (
    "import resource; from broker.open_files import raise_open_files_limit; "
    "raise_open_files_limit(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
)


@pytest.mark.parametrize("limit", [216, 256, 1_024, 4_096, 65_536, 1_048_576])
@pytest.mark.parametrize("directories", [1, 3, 4])
def test_all_parts_together_are_no_more_than_the_limit(limit: int, directories: int) -> None:
    bounds = file_bounds(limit, directories, ANY)

    reserved = RESERVED + RESERVED_OF_A_DIRECTORY * directories
    assert reserved + bounds.connections + bounds.log_files * directories <= limit
    assert bounds.log_files >= LOG_FILES_MIN
    assert bounds.connections >= 16


def test_logs_and_connections_get_half_of_the_rest_each() -> None:
    assert file_bounds(4_096, 3, ANY) == FileBounds(connections=1_976, log_files=658)


def test_settings_and_a_high_limit_bound_them_further() -> None:
    assert file_bounds(1_048_576, 3, 7) == FileBounds(connections=7, log_files=OPEN_FILES_MAX)
    assert file_bounds(None, 3, 7) == FileBounds(connections=7, log_files=OPEN_FILES_MAX)


def test_a_limit_that_is_too_low_is_refused_with_the_number_that_is_needed() -> None:
    with pytest.raises(ConfigError, match="invalid value '128' for configuration ulimit -n: 3 log"):
        file_bounds(128, 3, ANY)


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
