"""The command line without a cluster: nothing runs, nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.cluster import wait_for
from lab.report import junit

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).resolve().parents[2]


def jbodlab(state_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jbodlab", *arguments],
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

    assert (result.returncode, result.stdout) == (0, "no cluster named default\n")


def test_down_tells_programs_as_well(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "down", "--output", "json")

    assert result.returncode == 0
    assert json.loads(result.stdout) == {"name": "default", "ended": False, "problems": []}


def test_status_where_nothing_runs_fails_with_one_line(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "status", "--cluster", "x")

    assert (result.returncode, result.stderr) == (1, "jbodlab: no cluster named x is up\n")


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
def test_a_folder_that_the_servers_cannot_enter_is_told_in_one_line_and_nothing_stays(
    tmp_path: Path,
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    result = jbodlab(closed / "state", "up", "--kind", "folder")

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
        (["p", "--results", "/dev/null/x"], "/dev/null/x cannot be written: Not a directory"),
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


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["no-such-plan"], 64, "no-such-plan: cannot be read: No such file or directory"),
        ([], 64, "expected a plan; --list shows those that are shipped"),
        (["slow-disk", "--results", "/dev/null/x"], 64, "/dev/null/x cannot be written"),
        (["slow-disk", "--repeat", "0"], 64, "--repeat: expected a number from 1 to 1000, got '0'"),
        (["slow-disk", "--no-such-option"], 64, "unknown option --no-such-option"),
        (["slow-disk", "--cluster", "one"], 64, "rehearse does not take --cluster"),
        (["attached.yaml"], 2, "no cluster named mine is up"),
    ],
)
def test_a_rehearsal_without_a_verdict_leaves_no_earlier_one_behind(
    tmp_path: Path, arguments: list[str], code: int, reason: str
) -> None:
    plan = (
        "rehearsal: 1\nname: a\nattach: {cluster: mine}\n"
        "topics: {t: {partitions: 1, replicas: 1}}\n"
        "load: [{topic: t}]\nobjectives: [isr_full == 1]\n"
    )
    (tmp_path / "attached.yaml").write_text(plan, "utf-8")
    file, results = tmp_path / "verdict.xml", tmp_path / "rehearsals"
    file.write_text("<testsuites><testsuite tests='1' failures='0' errors='0'/></testsuites>")
    results.mkdir()
    for name in ("result.json", "report.html", "events.jsonl"):
        (results / name).write_text("{}", "utf-8")
    if "--results" not in arguments:
        arguments = [*arguments, "--results", str(results)]

    result = jbodlab(tmp_path, "rehearse", *arguments, "--junit", str(file))

    (suite,) = ElementTree.parse(file).getroot()
    assert result.returncode == code, result.stderr
    assert suite.attrib["errors"] == "1"
    assert reason in next(suite.iter("error")).attrib["message"]
    assert str(results) not in arguments or not [*results.iterdir()]


def test_a_rehearsal_that_is_killed_leaves_no_earlier_verdict_behind(tmp_path: Path) -> None:
    file = tmp_path / "verdict.xml"
    file.write_text(junit.xml({}), "utf-8")
    command = [sys.executable, "-m", "jbodlab", "rehearse", "slow-disk", "--junit", str(file)]
    environment = {
        **os.environ,
        "JBODLAB_STATE_DIR": str(tmp_path / "state"),
        "PYTHONPATH": str(REPOSITORY),
    }
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as run:
        wait_for("an error", lambda: "has not come to its end" in file.read_text("utf-8"))
        run.send_signal(signal.SIGINT)

    # To a shell both are 130: where the interrupt meets code of a text, as of a data class that is
    # imported, Python itself ends by the signal.
    assert run.returncode in {130, -signal.SIGINT}
    assert "has not come to its end" in file.read_text("utf-8")


def test_a_plan_with_kafka_streams_says_in_one_line_that_java_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = (
        "java is not installed: Apache Kafka needs Java 17, such as Debian's "
        "openjdk-17-jre-headless"
    )

    run = jbodlab(tmp_path, "rehearse", "streams-exactly-once")
    shown = jbodlab(tmp_path, "rehearse", "--list")

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"jbodlab rehearse: INCONCLUSIVE: {missing}\n"
    assert not (tmp_path / "rehearsals").exists()
    (line,) = (each for each in shown.stdout.splitlines() if "streams" in each)
    assert line.endswith(f"(not here: {missing})")


def test_what_is_compared_must_be_results(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "rehearse", "--compare", "a", "b")

    assert result.returncode == 64
    assert (
        result.stderr
        == "jbodlab rehearse: a is not a result of a rehearsal: No such file or directory\n"
    )


def test_shipped_plans_are_listed_for_programs_with_what_they_need(tmp_path: Path) -> None:
    result = jbodlab(tmp_path, "rehearse", "--list", "--output", "json")

    plans = {one["plan"]: one for one in json.loads(result.stdout)}
    assert plans["disk-and-broker"]["does"] == ["eio", "kill"]
    assert plans["disk-and-broker"]["not_here"] == ""
    loop = plans["power-loss-of-a-broker"]
    assert loop["made_by"] == ["loop"]
    assert loop["not_here"] == ("" if os.geteuid() == 0 else "only root may mount")
