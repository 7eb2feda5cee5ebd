from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from broker.bounds.resources import WantedResources, check, divide, memory_limit
from jbodlab.vocabulary.errors import ConfigError

SHOW = (
    "import resource; from broker.bounds.resources import raise_open_files_limit; "
    "raise_open_files_limit(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
)


@pytest.mark.parametrize("directories", [1, 3, 24])
@pytest.mark.parametrize("limit", [256, 300, 512, 1024, 4096, 65_536, 1 << 20])
def test_all_that_may_be_open_fits_the_limit(limit: int, directories: int) -> None:
    found = divide(limit, directories)

    kept = found.kept_per_directory * directories
    assert kept + found.connections + 2 * found.waiting + found.reserve <= limit
    assert min(found.kept_per_directory, found.connections, found.waiting) >= 1
    assert found.reserve >= min(limit // 2, 100)


def test_too_few_open_files_are_refused_by_number() -> None:
    with pytest.raises(ConfigError, match="need more than 64 open files"):
        divide(64, 24)


def wanted(directories: int = 4) -> WantedResources:
    return WantedResources(
        directories=directories,
        request_bytes=100 << 20,
        queued_bytes=None,
        key_map_bytes=128 << 20,
    )


def test_a_start_with_less_memory_than_the_bounds_allow_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    needed = wanted().memory_bytes
    for memory_bytes in (needed, None):
        assert check(wanted(), 4_096, memory_bytes) == divide(4_096, 4)
    assert not caplog.records

    assert check(wanted(), 4_096, needed - 1) == divide(4_096, 4)

    (line,) = caplog.messages
    assert f"may use {needed >> 20} MiB of memory, and has {(needed - 1) >> 20} MiB" in line
    assert wanted(5).memory_bytes > needed


def test_too_few_open_files_are_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="open files"):
        check(wanted(24), 64, None)


def test_the_memory_limit_is_that_of_the_machine_or_of_its_container(tmp_path: Path) -> None:
    assert memory_limit(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       2048 kB\nMemFree: 1 kB\n")
    assert memory_limit(tmp_path) == 2 << 20
    cgroup = tmp_path / "sys/fs/cgroup"
    cgroup.mkdir(parents=True)
    (cgroup / "memory.max").write_text("max\n")
    assert memory_limit(tmp_path) == 2 << 20
    (cgroup / "memory.max").write_text("1048576\n")

    assert memory_limit(tmp_path) == 1 << 20


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
