from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SETTINGS = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.voters": "100@127.0.0.1:1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


def run(tmp_path: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    settings = {**SETTINGS, "log.dirs": str(tmp_path / "d1")}
    settings.update({key.replace("_", "."): value for key, value in changes.items()})
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return subprocess.run(
        [sys.executable, "-m", "broker", "-c", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"node_id": "many"}, "node.id"),
        ({"process_roles": "nothing"}, "process.roles"),
        ({"replica_fetch_wait_max_ms": "40000"}, "replica.fetch.wait.max.ms"),
        ({}, "meta.properties"),
    ],
)
def test_what_makes_a_start_impossible_is_said_in_one_line(
    tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    ended = run(tmp_path, **changes)

    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("jbod-broker: ")
    assert said in line


def test_keys_that_are_unknown_or_have_no_effect_are_warned_about(tmp_path: Path) -> None:
    ended = run(tmp_path, no_such_key="1", log_cleaner_threads="2")

    assert "unknown configuration no.such.key is ignored" in ended.stderr
    assert "configuration log.cleaner.threads is ignored" in ended.stderr
