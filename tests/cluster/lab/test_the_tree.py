"""The tree is tested: an edit counts at once, whoever calls pytest, and wherever."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.machine.programs import PACKAGES
from tests.cluster.harness import TREE

pytestmark = pytest.mark.cluster

TESTED = "tests/cluster/clients/test_clients.py::test_kcat"
NOT_NEEDED = shutil.ignore_patterns("__pycache__", "fixtures", "golden")


@pytest.mark.parametrize("server", ["broker", "controller"])
def test_a_server_that_is_broken_in_the_tree_fails_its_tests(tmp_path: Path, server: str) -> None:
    copy = tmp_path / "clone"
    for folder in (*PACKAGES, "lab", "tests"):
        shutil.copytree(TREE / folder, copy / folder, ignore=NOT_NEEDED)
    shutil.copy(TREE / "pyproject.toml", copy)
    main = copy / server / "__main__.py"
    main.write_text("raise SystemExit('broken on purpose')\n")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(copy / TESTED)],
        cwd="/",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 1, done.stdout
    assert f"{server} " in done.stdout
    assert "ended while starting" in done.stdout
    assert "broken on purpose" in done.stdout
