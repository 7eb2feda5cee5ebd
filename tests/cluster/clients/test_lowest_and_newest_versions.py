"""The fixture beside the lowest versions of its dependencies that are admitted, and the newest.

A person who tests an application has other packages that hold some of them back.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.machine.folders import make_folder, remove_folder

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[3]
INSTALL_S, RUN_S = 300, 150
FOREIGN_TEST = """
import pytest

pytestmark = pytest.mark.jbod(brokers=2, disks=2, config={"min.insync.replicas": 1})


def test_a_disk_dies(jbod_cluster):
    topic = jbod_cluster.new_topic(partitions=3, replicas=2)
    with jbod_cluster.leader_log_dir(topic).fails("permission") as fault:
        fault.wait_detected()
        jbod_cluster.wait_leaders(topic)
    jbod_cluster.wait_isr(topic)


def test_a_broker_ends(jbod_cluster):
    topic = jbod_cluster.new_topic(partitions=3, replicas=2)
    jbod_cluster.broker(1).kill()
    jbod_cluster.wait_leaders(topic)
"""


def requirements(*, lowest: bool) -> list[str]:
    """Packages of the project and its extra `testing`, held at the lowest versions or at none."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["testing"]]
    return [one.replace(">=", "==") for one in wanted] if lowest else wanted


@pytest.fixture
def folder() -> Iterator[Path]:
    found = make_folder()
    yield found
    remove_folder(found)


@pytest.mark.parametrize(
    "lowest",
    # The versions of `make env` are as good as the newest, but for a day on which one comes.
    [pytest.param(True, id="lowest"), pytest.param(False, id="newest", marks=pytest.mark.soak)],
)
def test_the_fixture_works_beside(folder: Path, lowest: bool) -> None:
    base = Path(sys.base_prefix) / "bin" / "python3"
    subprocess.run([base, "-m", "venv", folder / "env"], check=True, timeout=60)
    python = folder / "env" / "bin" / "python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *requirements(lowest=lowest)],
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    if installed.returncode and "Could not find a version" in installed.stderr:
        pytest.skip(f"no package registry here: {installed.stderr.splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    (folder / "test_foreign.py").write_text(FOREIGN_TEST)

    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "jbodlab.testing.plugin", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )

    assert "2 passed" in done.stdout, done.stdout + done.stderr
