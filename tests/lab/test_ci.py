"""The steps of the action and of the template, carried out as a runner would."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.machine.folders import make_folder, remove_folder
from tests.config.documents import ROOT

CI = ROOT / "ci"
ACTION: dict[str, Any] = yaml.safe_load((CI / "action.yml").read_text())
TEMPLATE: dict[str, Any] = yaml.safe_load((CI / "gitlab.yml").read_text())[".jbodlab"]
(STEP,) = (one for one in ACTION["runs"]["steps"] if one.get("name") == "run")
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
(USE,) = (
    one["with"]
    for job in WORKFLOW["jobs"].values()
    for one in job["steps"]
    if one.get("uses") == "./ci"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the servers' user can enter."""
    made = make_folder()
    yield made
    remove_folder(made)


def carried_out(script: str, folder: Path, command: str, options: str) -> int:
    """Run a step's shell; returns its exit code. The results are in the folder's `out`."""
    variables = {
        "JBODLAB_COMMAND": command,
        "JBODLAB_OPTIONS": options,
        "JBODLAB_RESULTS": str(folder / "out"),
        "JBODLAB_STATE_DIR": str(folder / "state"),
        "JBODLAB_SOURCE": str(ROOT),
        "GITHUB_ACTION_PATH": str(CI),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    # The shell that runners use.
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        shell, cwd=ROOT, env={**os.environ, **variables}, timeout=240, check=False
    ).returncode


def test_the_workflow_gives_the_action_what_it_takes() -> None:
    assert set(USE) <= set(ACTION["inputs"])
    needed = {name for name, one in ACTION["inputs"].items() if one.get("required")}
    assert needed <= set(USE)
    named = {text for text in STEP["env"].values() if text.startswith("${{ inputs.")}
    assert named == {f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]}


@pytest.mark.cluster
def test_the_action_runs_the_workflows_command_beside_a_cluster(folder: Path) -> None:
    code = carried_out(STEP["run"], folder, USE["command"], USE["options"])

    assert code == 0
    suite = ET.parse(folder / "out" / "tests.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    assert "<html" in (folder / "out" / "report.html").read_text().lower()
    assert (folder / "out" / "cluster.log").exists()


@pytest.mark.cluster
def test_the_template_fails_as_its_command_does(folder: Path) -> None:
    (script,) = TEMPLATE["script"]
    command = 'test -n "$JBODLAB_BOOTSTRAP"; exit 7'

    assert carried_out(script, folder, command, "--brokers 1 --disks 1 --kind folder") == 7
    assert TEMPLATE["variables"]["JBODLAB_RESULTS"] == ACTION["inputs"]["results"]["default"]


@pytest.mark.process
def test_a_cluster_that_cannot_start_fails_the_step(folder: Path) -> None:
    assert carried_out(STEP["run"], folder, "true", "--brokers none") == 1
