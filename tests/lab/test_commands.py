"""The command line without a cluster: nothing runs, nothing is left."""

from __future__ import annotations

import json
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
        # Not the clone, which stays as it is.
        cwd=next(each for each in (state_dir, *state_dir.parents) if each.exists()),
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


def test_down_tells_programs_as_well(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "down", "--json")

    assert result.returncode == 0
    assert json.loads(result.stdout) == {"name": "default", "ended": False, "problems": []}


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


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "expected a plan; --list shows those that are shipped"),
        (["p", "--junit", "/dev/null/x.xml"], "/dev/null/x.xml cannot be written: Not a directory"),
        (["p", "--output", "/dev/null/x"], "/dev/null/x cannot be written: Not a directory"),
        (["p", "--junit", "/dev"], "/dev cannot be written: Is a directory"),
    ],
)
def test_a_rehearsal_that_is_asked_for_wrongly_has_no_verdict(
    tmp_path: Path, arguments: list[str], line: str
) -> None:
    plan = "slow-disk" if "p" in arguments else "p"
    result = jbodlab(tmp_path, "rehearse", *[plan if word == "p" else word for word in arguments])

    assert (result.returncode, result.stdout) == (64, "")
    assert result.stderr == f"jbodlab rehearse: {line}\n"
    assert not (tmp_path / "rehearsals").exists()


def test_a_wrong_option_of_a_rehearsal_is_no_failure_of_the_plan(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "rehearse", "slow-disk", "--repeat", "0")

    assert result.returncode == 64
    assert result.stderr.endswith("argument --repeat: '0' is no number from 1 to 1000\n")


@pytest.mark.parametrize(
    ("words", "unknown"),
    [("slow-disk --bogus", "--bogus"), ("slow-disk extra", "extra"), ("--nme x --list", "--nme")],
)
def test_a_word_that_a_rehearsal_does_not_know_is_no_failure_of_the_plan(
    tmp_path: Path, words: str, unknown: str
) -> None:
    result = jbodlab(tmp_path, "rehearse", *words.split())

    assert (result.returncode, result.stdout) == (64, "")
    assert result.stderr.endswith(f"jbodlab rehearse: error: unrecognized arguments: {unknown}\n")


def test_of_other_commands_such_a_word_is_a_failure_as_ever(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "status", "--bogus")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.endswith("jbodlab status: error: unrecognized arguments: --bogus\n")


def test_what_is_compared_must_be_results(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "rehearse", "--compare", "a", "b")

    assert result.returncode == 64
    assert (
        result.stderr
        == "jbodlab rehearse: a is not a result of a rehearsal: No such file or directory\n"
    )


def test_shipped_plans_are_listed_for_programs_with_what_they_need(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "rehearse", "--list", "--json")

    plans = {one["plan"]: one for one in json.loads(result.stdout)}
    assert plans["disk-and-broker"]["does"] == ["eio", "kill"]
    assert plans["disk-and-broker"]["not_here"] == ""
    loop = plans["power-loss-of-a-broker"]
    assert loop["made_by"] == ["loop"]
    assert loop["not_here"] == ("" if os.geteuid() == 0 else "only root may mount")


def test_a_replay_asks_for_its_cluster_first(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "replay")

    assert (result.returncode, result.stderr) == (1, "jbodlab: no cluster named default is up\n")
