"""Clients of the HTTP API and the example projects that use them, for Java, Go and Node.

Each passes its own tests, on clusters of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.machine.folders import make_folder, remove_folder

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 280
# The most that `go vet` looks at is the standard library.
GO = ("go mod download", "go test -count=1 -vet=off ./...")
PROJECTS = {
    "clients/go": GO,
    "clients/node": ("node --check index.js", "node --test --test-timeout 300000"),
    "clients/java": ("mvn -q -B test-compile", "mvn -q -B test"),
    "examples/orders-go": GO,
    "examples/orders-java": (
        "mvn -q -B -f ../../clients/java install -DskipTests",
        "mvn -q -B test",
    ),
    "examples/orders-node": ("npm install --no-audit --no-fund", "npm test"),
}
"""Commands that fetch the packages of a project and that test it, by its folder."""
UNREACHABLE = re.compile(
    r"Could not transfer artifact|could not be resolved|dial tcp|ENOTFOUND|ECONNREFUSED|ETIMEDOUT"
)


def ran(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command.split(),
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("project", PROJECTS)
def test_the_project_passes_its_own_tests(project: str, tmp_path: Path) -> None:
    fetch, test = PROJECTS[project]
    tool = test.split()[0]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on the path")
    fetched = ran(fetch, ROOT / project)
    said = fetched.stdout + fetched.stderr
    if fetched.returncode != 0 and UNREACHABLE.search(said):
        pytest.skip(f"packages of {project} cannot be had: {said.strip()[-200:]}")
    assert fetched.returncode == 0, said[-5000:]
    state = make_folder()
    program = tmp_path / "jbodlab"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jbodlab "$@"\n')
    program.chmod(0o755)
    try:
        done = ran(test, ROOT / project, JBODLAB=str(program), JBODLAB_STATE_DIR=str(state))
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        assert not any((state / "clusters").glob("*/")), "a cluster has stayed"
    finally:
        remove_folder(state)
