"""`jbodlab run` on clusters that stop for good, and what it says of them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from fault_injection.journal import read_faults
from jbodlab.cli import lab_state
from lab.cluster.folders import make_folder, remove_folder
from tests.cluster.harness import script, wait_for

pytestmark = pytest.mark.cluster
PROGRAM_S = 6


class Lab:
    """Runs commands on a cluster of one broker with two directories, in a state folder of its own.

    Every partition has one replica, so nobody takes over where a disk dies.
    """

    def __init__(self, state: Path) -> None:
        self.environment = {**os.environ, "JBODLAB_STATE_DIR": str(state)}

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*script("jbodlab"), *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def run(self, *words: str, program: str) -> tuple[int, dict[str, Any]]:
        done = self.call(
            "run",
            "--fail",
            "broker-1/1",
            "--after",
            "1s",
            "--output",
            "json",
            *words,
            "--",
            "sh",
            "-c",
            program,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    folder = make_folder()
    lab = Lab(folder / "state")
    started = lab.call("up", "--brokers", "1", "--disks", "2", "--kind", "folder")
    try:
        assert started.returncode == 0, started.stdout + started.stderr
        yield lab
    finally:
        ended = lab.call("down", "--yes")
        remove_folder(folder)
    assert ended.returncode == 0, ended.stderr


def test_a_disk_that_is_dead_until_the_end_has_a_gap_until_the_end(lab: Lab) -> None:
    began = time.monotonic()
    code, found = lab.run(program=f"sleep {PROGRAM_S}; exit 3")
    took_ms = (time.monotonic() - began) * 1000

    # The fault comes after a second, on a busy machine later; from then on nothing was
    # acknowledged, which did not end.
    assert PROGRAM_S * 1000 / 2 < found["gap_ms"] < took_ms
    assert found["gap_ended"] is False
    assert (code, found["exit_code"], found["lost"], found["unread"]) == (3, 3, 0, 0)


def test_a_gap_that_ends_while_the_program_runs_has_its_length(lab: Lab) -> None:
    code, found = lab.run("--for", "2s", program=f"sleep {PROGRAM_S}")

    assert found["gap_ended"] is True
    assert 1500 < found["gap_ms"] < (PROGRAM_S - 1) * 1000
    assert code == 0


def test_a_fault_with_a_length_ends_even_where_the_lab_is_killed(lab: Lab) -> None:
    journal = lab_state.journal_file(Path(lab.environment["JBODLAB_STATE_DIR"]))
    running = subprocess.Popen(
        [*script("jbodlab"), "run", "--fail", "broker-1/1", "--after", "0s", "--for", "1s", "--",
         "sleep", "60"],
        env=lab.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(
            "a fault",
            lambda: [one for one in read_faults(journal) if one.state == "proved"],
            90,
        )
    finally:
        running.kill()
        running.wait(60)

    wait_for("the fault reverted", lambda: read_faults(journal) == [], 60)
    assert lab.call("heal", "--revive").returncode == 0


def test_messages_of_a_topic_that_somebody_deletes_are_unread_and_not_lost(
    lab: Lab, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    bootstrap = json.loads(lab.call("list", "--output", "json").stdout)[0]["bootstrap"]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    before = set(admin.list_topics(timeout=5).topics)
    running = subprocess.Popen(
        [*script("jbodlab"), "run", "--fail", "broker-1/1", "--after", "1s", "--output", "json",
         "--", "sh", "-c", f"touch {started}; sleep {PROGRAM_S}"],
        env=lab.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        wait_for("the program", started.exists, 90)
        (topic,) = set(admin.list_topics(timeout=5).topics) - before - {"__consumer_offsets"}
        admin.delete_topics([topic])[topic].result(10)
        said, errors = running.communicate(timeout=200)
    finally:
        running.kill()
        running.wait(60)
    found = json.loads(said)

    assert found["lost"] == 0, errors
    assert found["unread"] == found["acknowledged"] > 0
    assert not found["topic_kept"]
    assert found["doubts"] == [f"topic {topic} was deleted during the run"]
    assert found["to_do"] == []
    assert running.returncode == 75
