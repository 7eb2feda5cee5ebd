"""The commands on a cluster that stays: broken, noticed, healed, stopped, started, ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fault_injection.journal import read_faults
from lab import replay
from lab.cluster import wait_for
from lab.cluster.log_dir_states import offline
from lab.errors import LabError
from lab.machine import folders, processes
from lab.machine.folders import make_folder, remove_folder
from lab.rehearsal.schedule import NS, RESTORED_DEADLINE_NS
from tests.cluster.staying import Staying

pytestmark = pytest.mark.cluster


def keep_a_record(staying: Staying) -> None:
    staying.cluster.create_topic("kept", partitions=1, replicas=1)
    producer = Producer({"bootstrap.servers": staying.cluster.bootstrap})
    producer.produce("kept", b"a record")
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def staying() -> Iterator[Staying]:
    root = make_folder()
    cluster = Staying(root)
    try:
        told = cluster.told("up", "--brokers", "2", "--disks", "2", "--kind", "folder")
        assert len(told["nodes"]) == 3
        yield cluster
        keep_a_record(cluster)
        refused = cluster.run("down")
        assert refused.returncode == 1
        assert "partitions? Confirm with --yes" in refused.stderr
        ended = cluster.run("down", "--yes")
        assert ended.stdout == "cluster default stopped and removed\n"
        assert folders.left_of(root / "clusters" / "default") == []
    finally:
        cluster.run("down", "--yes")
        remove_folder(root)


def test_inject_waits_until_the_broker_has_noticed_and_heal_brings_the_directory_back(
    staying: Staying,
) -> None:
    injected = staying.told("inject", "eio", "broker-1/2")
    looked = staying.run("status", "--output", "json")
    healed = staying.told("heal")
    revived = staying.told("heal", "--revive")

    assert injected["noticed"]["what"].startswith("the directory is OFFLINE")
    assert injected["broken"]["count"] > 0
    status = json.loads(looked.stdout)
    assert (looked.returncode, status["healthy"]) == (1, False)
    (fault,) = status["open_faults"]
    assert (fault["kind"], fault["id"]) == ("eio", injected["id"])
    directory = status["nodes"][1]["log_dirs"][1]
    assert (directory["state"], "Input/output error" in directory["cause"]) == ("OFFLINE", True)
    assert status["metadata_log"]["last_offset"] > 0
    assert "jbodlab heal --revive" in healed["to_do"][0]
    assert (revived["revived"], revived["to_do"]) == (["broker-1/2"], [])


def test_a_broker_that_ended_is_started_again(staying: Staying) -> None:
    stopped = staying.told("stop", "broker-2")
    listed = staying.told("list")
    started = staying.told("start")

    assert stopped == {"broker-2": "ended"}
    assert (listed[0]["running"], listed[0]["nodes"]) == (2, 3)
    assert started["broker-2"].startswith("started, pid ")
    assert staying.told("status")["healthy"]


def test_a_broker_that_does_not_start_with_a_twin_is_told_of(staying: Staying) -> None:
    injected = staying.told("inject", "twin", "broker-2/1", "--with", "2")
    healed = staying.told("heal")

    assert injected["noticed"]["what"].startswith("does not start (")
    assert healed["to_do"] == []


def test_a_program_is_run_while_a_disk_breaks(staying: Staying) -> None:
    done = staying.run(
        "run", "--fail", "broker-1/1", "--after", "1s", "--output", "json", "--",
        sys.executable, "-c", "import sys, time; time.sleep(4); sys.exit(3)", "{bootstrap}",
    )  # fmt: skip

    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert (found["exit_code"], found["lost"], found["duplicated"]) == (3, 0, 0)
    assert found["gap_ms"] > 0
    assert found["unread"] == 0
    # A directory that was broken is brought back.
    assert found["to_do"] == []


@pytest.mark.soak
@pytest.mark.spark
def test_a_replay_of_the_running_cluster_is_kept(staying: Staying) -> None:
    try:
        replay.check_requirements()
    except LabError as error:
        pytest.skip(str(error))

    found = staying.told("replay")

    assert Path(found["page"]).read_text().lower().startswith("<!doctype html")
    assert "broker" in Path(found["report"]).read_text()
    assert {"brokers", "partitions", "directory_failures"} <= {
        path.name for path in Path(found["tables"]).iterdir()
    }
    kept = staying.state_dir / "replays"
    assert all(kept in Path(path).parents for path in found.values())


def test_interrupted_it_heals_first_and_ends_what_it_started(staying: Staying) -> None:
    command = [
        sys.executable,
        "-m",
        "jbodlab",
        "run",
        "--fail",
        "broker-1/1",
        "--after",
        "0s",
        "--",
    ]
    running = subprocess.Popen(
        [*command, "sleep", "600"],
        env=staying.environment,
        cwd=staying.state_dir,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(
            "a fault with an effect",
            lambda: [one for one in read_faults(staying.journal) if one.state == "proved"],
        )
        wait_for("a directory that is offline", lambda: any(map(offline, staying.cluster.brokers)))
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait(60)

    assert running.returncode == 130, said
    assert said.endswith("jbodlab: interrupted\n")
    # A directory that was broken is brought back, so that the next run does not find it dead.
    assert "is still offline" not in said
    assert [entry for one in staying.cluster.brokers for entry in offline(one)] == []

    assert read_faults(staying.journal) == []
    assert [
        one.pid
        for one in processes.below(staying.state_dir)
        if "sleep" in Path(f"/proc/{one.pid}/cmdline").read_text()
    ] == []
    assert staying.topics() == {"__consumer_offsets"}


def test_a_fault_that_broke_no_call_tells_nothing(staying: Staying) -> None:
    done = staying.run(
        "run", "--fail", "broker-1/1", "--kind", "eio", "--files", "*.nosuch", "--after", "1s",
        "--output", "json", "--", "sleep", "3",
    )  # fmt: skip

    found = json.loads(done.stdout)
    assert (done.returncode, found["exit_code"], found["broken"]) == (75, 0, "0 calls")
    assert found["doubts"] == ["fault had no effect: the broker made no call that it breaks"]


def test_a_directory_that_was_dead_before_tells_nothing(staying: Staying) -> None:
    staying.told("inject", "permission", "broker-1/2")
    staying.told("heal")

    done = staying.run(
        "run", "--fail", "broker-1/2", "--after", "1s", "--output", "json", "--", "sleep", "3"
    )

    found = json.loads(done.stdout)
    assert (done.returncode, found["exit_code"], found["lost"]) == (75, 0, 0), found
    assert found["verdict"] == "INCONCLUSIVE"
    assert "has no partition of the plan's topics" in found["doubts"][0]
    assert [entry for one in staying.cluster.brokers for entry in offline(one)] == []


REFUSED = """\
rehearsal: 1
name: two faults of one directory
attach: {cluster: default}
topics: {twice: {partitions: 4, replicas: 2}}
load: [{name: writers, topic: twice, rate: 100/s}]
steady: {within: 30s, hold: 1s, that: [isr_full == 1]}
timeline:
  - {at: 1s, do: permission, where: broker-2/dir-1, as: first, for: 2s}
  - {at: 2s, do: read-only, where: broker-2/dir-1, as: second, for: 1s}
end: {after: first.healed, plus: 1s}
objectives: [writers.lost == 0]
"""


def test_a_second_fault_that_is_refused_does_not_keep_the_directory_of_the_first_one_dead(
    staying: Staying, tmp_path: Path
) -> None:
    (tmp_path / "plan.yaml").write_text(REFUSED, "utf-8")
    begun = time.monotonic()

    done = staying.run("rehearse", str(tmp_path / "plan.yaml"), "--results", str(tmp_path / "out"))

    assert done.returncode == 2, done.stdout
    assert "second: not injected: " in done.stdout
    assert "broker-2/dir-1 is revived" in done.stdout
    assert time.monotonic() - begun < RESTORED_DEADLINE_NS / NS
    assert [entry for one in staying.cluster.brokers for entry in offline(one)] == []
    staying.cluster.delete_topics("twice")


def test_a_program_that_is_not_there_is_found_out_before_a_topic_is_made(staying: Staying) -> None:
    before = staying.topics_made()

    done = staying.run("run", "--cluster=default", "--fail", "broker-1/1", "--", "/no/such/program")

    assert (done.returncode, done.stderr) == (
        64,
        "jbodlab run: program /no/such/program not found\n",
    )
    assert staying.topics_made() == before


def test_messages_of_a_topic_that_somebody_deletes_are_unread_and_not_lost(
    staying: Staying, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    admin = staying.cluster.admin()
    before = set(admin.list_topics(timeout=5).topics)
    running = subprocess.Popen(
        [sys.executable, "-m", "jbodlab", "run", "--fail", "broker-1/1", "--after", "1s",
         "--output", "json", "--", "sh", "-c", f"touch {begun}; sleep 6"],
        env=staying.environment,
        cwd=staying.state_dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        wait_for("the program", begun.exists, 90)
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
    assert running.returncode == 75
