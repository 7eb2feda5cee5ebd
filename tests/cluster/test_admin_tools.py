"""The tools on a cluster of our own processes."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest

from jbodlab import kafka_uuid
from tests.cluster.harness import (
    Cluster,
    assigned,
    directory_id,
    on_disk,
    partitions_in,
    script,
    wait_for,
)
from tests.cluster.scenes import Stage

pytestmark = pytest.mark.cluster


def tool(cluster: Cluster, name: str, *arguments: str) -> tuple[int, list[str], list[str]]:
    """Run a tool as a user does: its exit code, and the lines of both outputs."""
    done = subprocess.run(
        [*script(name), "--bootstrap-server", cluster.bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def topics(cluster: Cluster, *arguments: str) -> tuple[int, list[str]]:
    code, out, err = tool(cluster, "jbod-topics", *arguments)
    assert err == []
    return code, out


def partitions(lines: list[str]) -> list[dict[str, str]]:
    """The columns of the partition lines by name."""
    return [
        dict(column.split(": ", 1) for column in line.split("\t")[1:])
        for line in lines
        if line.startswith("\t")
    ]


def test_topics_are_made_listed_grown_and_deleted(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        create = ["--create", "--topic", "made", "--partitions", "2", "--replication-factor", "3"]
        assert topics(cluster, *create) == (0, ["Created topic made."])
        code, (line,) = topics(cluster, *create)
        assert code == 1
        assert line.startswith("Error while executing topic command : Topic 'made' already exists")
        assert topics(cluster, *create, "--if-not-exists") == (0, [])
        wait_for("the topic", lambda: "made" in topics(cluster, "--list")[1])

        assert topics(cluster, "--alter", "--topic", "made", "--partitions", "3") == (0, [])
        describe = ["--describe", "--topic", "made"]
        lines = wait_for(
            "the third partition",
            lambda: (found := topics(cluster, *describe)[1]) and len(found) == 4 and found,
        )
        assert re.fullmatch(
            r"Topic: made\tTopicId: [\w-]{22}\tPartitionCount: 3\tReplicationFactor: 3"
            r"\tConfigs: .*",
            lines[0],
        )
        for index, columns in enumerate(partitions(lines)):
            assert columns["Partition"] == str(index)
            assert sorted(columns["Replicas"].split(",")) == ["1", "2", "3"]
            assert columns["Offline"] == ""
        code, (line,) = topics(cluster, "--alter", "--topic", "made", "--partitions", "2")
        assert code == 1
        assert line.startswith("Error while executing topic command : ")

        assert topics(cluster, "--delete", "--topic", "made") == (0, [])
        wait_for("the topic's end", lambda: "made" not in topics(cluster, "--list")[1])
        assert topics(cluster, *describe) == (
            1,
            ["Error while executing topic command : Topic 'made' does not exist as expected"],
        )
        assert topics(cluster, *describe, "--if-exists") == (0, [])


def test_the_table_knows_ids_and_space(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        code, out, err = tool(cluster, "jbod-log-dirs", "--describe", "--table")
        assert (code, err) == (0, [])
        rows = [line.split() for line in out[1:]]
        assert [row[:4] for row in rows] == [
            [str(broker), str(path), kafka_uuid.to_text(directory_id(path)), "ONLINE"]
            for broker in cluster.broker_ids
            for path in cluster.broker(broker).paths
        ]
        assert all("-" not in row[4:] for row in rows)


def test_a_watched_table_ends_with_ctrl_c(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        command = [*script("jbod-log-dirs"), "--bootstrap-server", cluster.bootstrap]
        with subprocess.Popen(
            [*command, "--describe", "--watch", "--interval", "0.1", "--broker-list", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A test run that was put in the background ignores it, and children would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            heads = 0
            while heads < 3:
                line = process.stdout.readline()
                assert line, process.stderr.read()
                heads += line.startswith("BROKER  LOG DIR")
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert process.stderr.read() == ""


def test_unknown_directories_are_not_revived_or_cordoned(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        for command in ("revive", "cordon"):
            code, out, err = tool(
                cluster, "jbod-log-dirs", command, "--broker", "1", "--dir", "/nowhere"
            )
            assert (code, out, len(err)) == (1, [], 1), (command, out, err)
        code, out, err = tool(
            cluster, "jbod-log-dirs", "revive", "--broker", "9", "--dir", "/nowhere"
        )
        assert (code, out, err) == (1, [], ["broker 9 is not a live broker of the cluster: 1,2,3"])


def test_a_dead_directory_is_shown_and_comes_back(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        scene.create("dead", 6, 3)
        path = cluster.broker(2).paths[0]
        wait_for(
            "replicas in their directories",
            lambda: (
                len(found := on_disk(cluster, 2, "dead")) == 6
                and found == assigned(cluster, 2, "dead")
            ),
        )
        held = partitions_in(path, "dead")
        assert held
        expected = kafka_uuid.to_text(directory_id(path))
        scene.faults.make("chmod000", path)
        try:
            describe = ["--describe", "--topic", "dead"]

            def offline() -> dict[int, str]:
                return {
                    int(one["Partition"]): one["Isr"]
                    for one in partitions(topics(cluster, *describe)[1])
                    if one["Offline"] == "2"
                }

            wait_for("the failure", lambda: set(offline()) == held)
            assert all("2" not in isr.split(",") for isr in offline().values())
            found = topics(cluster, *describe, "--under-replicated-partitions")[1]
            assert {int(one["Partition"]) for one in partitions(found)} == held

            code, out, err = tool(cluster, "jbod-log-dirs", "--describe", "--broker-list", "2")
            assert (code, err) == (0, [])
            by_path = {one["logDir"]: one for one in json.loads(out[2])["brokers"][0]["logDirs"]}
            assert by_path[str(path)] == {
                "partitions": [],
                "error": "org.apache.kafka.common.errors.KafkaStorageException",
                "logDir": str(path),
            }
            out = tool(cluster, "jbod-log-dirs", "--describe", "--table", "--broker-list", "2")[1]
            assert out[1].split() == ["2", str(path), expected, "OFFLINE", *"------"]
            assert f"broker 2: {path}: " in "\n".join(out[4:])
        finally:
            scene.faults.heal(path)

        code, out, err = tool(
            cluster, "jbod-log-dirs", "revive", "--broker", "2", "--dir", str(path)
        )
        assert (code, err) == (0, [])
        plural = "" if len(held) == 1 else "s"
        assert out == [
            f"Revived {path} ({expected}) on broker 2: "
            f"it is online with {len(held)} replica{plural}"
        ]
        wait_for("the return", lambda: not offline())
        # There is nothing to revive any more.
        code, out, err = tool(
            cluster, "jbod-log-dirs", "revive", "--broker", "2", "--dir", str(path)
        )
        assert (code, out, len(err)) == (1, [], 1)
