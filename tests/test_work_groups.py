"""A run whose worker dies ends, and has run every other test once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GROUPS = 12
TESTS = 3
DEADLINE_S = 120
OPTIONS = ("--dist=loadgroup", "--no-loadscope-reorder", "-p", "no:cacheprovider")
CONFTEST = """
from tests.work_groups import GroupScheduling

def pytest_xdist_make_scheduler(config, log):
    return GroupScheduling(config, log)

def pytest_collection_modifyitems(items):
    import pytest
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.path.name))
"""
TEST_FILE = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_each(number):
    with (Path(__file__).parent / "runs").open("a") as runs:
        runs.write(f"{name}-{{number}}\\n")
    if "{name}-{{}}".format(number) == "{deadly}":
        os._exit(1)
"""


@pytest.mark.process
@pytest.mark.parametrize("deadly", ["3-1", "5-2"])
def test_what_a_dead_worker_has_not_run_is_run_once_by_others(tmp_path: Path, deadly: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in range(GROUPS):
        text = TEST_FILE.format(name=name, tests=TESTS, deadly=deadly)
        (tmp_path / f"test_{name:02}.py").write_text(text)

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n2", *OPTIONS, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )

    runs = (tmp_path / "runs").read_text().split()
    assert sorted(runs) == sorted(f"{g}-{t}" for g in range(GROUPS) for t in range(TESTS))
    assert f"1 failed, {GROUPS * TESTS - 1} passed" in ended.stdout
