"""The command line without a cluster: nothing runs, nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).resolve().parents[2]


def jbodlab(state_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *arguments],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "JBODLAB_STATE_DIR": str(state_dir),
            "PYTHONPATH": str(REPOSITORY),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_down_where_nothing_runs_says_so_and_succeeds(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "down")

    assert (result.returncode, result.stdout) == (0, "no cluster named default is up\n")


def test_status_where_nothing_runs_fails_with_one_line(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "status", "--name", "x")

    assert (result.returncode, result.stderr) == (1, "jbodlab: no cluster named x is up\n")


@pytest.mark.parametrize(
    "arguments",
    [[], ["frob"], ["up", "--brokers", "0"], ["up", "--name", "../x"], ["up", "--nam", "x"]],
)
def test_wrong_arguments_end_with_1(tmp_path: Path, arguments: list[str]) -> None:
    result = jbodlab(tmp_path, *arguments)

    assert result.returncode == 1
    assert result.stderr.startswith("usage: jbodlab")


@pytest.mark.parametrize("text", ["0", "x", "-1", "100001"])
def test_a_count_that_is_none_is_refused_with_its_range(tmp_path: Path, text: str) -> None:
    result = jbodlab(tmp_path, "up", f"--brokers={text}")

    assert result.stderr.endswith(f"argument --brokers: '{text}' is no number from 1 to 100000\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may choose the servers' user")
def test_servers_never_run_as_root(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "up", "--uid", "0")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "jbodlab: servers never run as root: no permission would stop them\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may choose the servers' user")
def test_an_ordinary_user_cannot_choose_the_servers_user(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "up", "--uid", str(os.geteuid() + 1))

    assert result.returncode == 1
    assert "only root can start servers as uid" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user starts servers as itself")
def test_a_folder_that_the_servers_cannot_enter_is_noticed_before_anything_starts(
    tmp_path: Path,
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    result = jbodlab(closed / "state", "up", "--plain-folders")

    assert result.returncode == 1
    assert "uid 1500 cannot run the servers of" in result.stderr
    assert result.stderr.count("\n") == 1
    assert list((closed / "state" / "clusters").iterdir()) == [
        closed / "state" / "clusters" / "default.lock"
    ]
