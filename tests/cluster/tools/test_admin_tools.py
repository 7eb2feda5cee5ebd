"""`jbodlab topics` and `dirs` on a cluster of our own processes."""

from __future__ import annotations

import re
import signal

import pytest

from jbodlab.vocabulary import kafka_uuid
from tests.cluster.commands import call, called, value
from tests.cluster.harness import Cluster, assigned, directory_id, on_disk, partitions_in, wait_for
from tests.cluster.scenes import Scene
from tests.command_lines import started

pytestmark = pytest.mark.cluster


def seen(cluster: Cluster, *lines: str) -> str:
    """Output that a user sees of commands: each with its exit code and both streams.

    Ids, paths and sizes, which differ from run to run, become ID, PATH and SIZE.
    """
    found = []
    for line in lines:
        done = call(cluster, *line.split())
        found.append(f"$ jbodlab {line}  [{done.code}]\n{done.out}{done.err}")
    text = "".join(found)
    for path in sorted(
        (str(path) for broker in cluster.broker_ids for path in cluster.broker(broker).paths),
        key=len,
        reverse=True,
    ):
        text = text.replace(path, "PATH")
    text = re.sub(r"[\w-]{22}(?=\)|\"|$)", "ID", text, flags=re.MULTILINE)
    return re.sub(r"\d+(\.\d+)? [KMGT]?i?B\b", "SIZE", text)


TOPICS = """\
$ jbodlab topics create made --assignment 1:2:3,2:3:1 --config retention.ms=60000  [0]
created topic made
$ jbodlab topics create made  [1]
jbodlab: Topic 'made' already exists.
$ jbodlab topics create made --if-not-exists  [0]
topic made exists already
$ jbodlab topics alter made --partitions 3 --assignment 1:2:3,2:3:1,3:1:2  [0]
topic made has 3 partitions
$ jbodlab topics alter made --partitions 2  [1]
jbodlab: The topic made currently has 3 partition(s); 2 would not be an increase.
$ jbodlab topics alter mad --partitions 9  [1]
jbodlab: unknown topic 'mad' (did you mean made?)
$ jbodlab topics delete made  [1]
jbodlab: delete topic made? Confirm with --yes
$ jbodlab topics delete --matching __.* --yes  [1]
jbodlab: no topic matches '__.*'
"""

DESCRIBED = """\
$ jbodlab topics describe made  [0]
made (ID): 3 partitions, replication factor 3
configs: file.delete.delay.ms=500, min.insync.replicas=1, retention.ms=60000
PARTITION  LEADER  REPLICAS  ISR    OFFLINE
        0       1  1,2,3     1,2,3  -
        1       2  2,3,1     2,3,1  -
        2       3  3,1,2     3,1,2  -
$ jbodlab topics describe made --only under-replicated  [0]
$ jbodlab topics describe --matching no.*  [1]
jbodlab: no topic matches 'no.*'
"""


def test_topics_are_created_described_grown_and_deleted(scene: Scene) -> None:
    cluster = scene.cluster
    assert seen(cluster, *commands(TOPICS)) == TOPICS
    wait_for(
        "the third partition",
        lambda: len(value(cluster, "topics", "describe", "made")[0]["partitions"]) == 3,
    )
    wait_for(
        "leaders",
        lambda: seen(cluster, *commands(DESCRIBED)) == DESCRIBED,
        last_seen=lambda: seen(cluster, *commands(DESCRIBED)),
    )
    (listed,) = value(cluster, "topics", "list", "made")
    assert listed.keys() == {"topic", "id", "partitions", "internal"}
    (described,) = value(cluster, "topics", "describe", "--id", listed["id"])
    assert described["topic"] == "made"

    assert called(cluster, "topics", "delete", "made", "--yes") == "deleted topic made\n"
    wait_for("the topic's end", lambda: "made" not in called(cluster, "topics", "list"))
    assert call(cluster, "topics", "delete", "made", "--if-exists", "--yes") == (0, "", "")


def commands(transcript: str) -> list[str]:
    """The command lines in a text such as `TOPICS`."""
    return re.findall(r"^\$ jbodlab (.*)  \[\d\]$", transcript, flags=re.MULTILINE)


def test_the_table_knows_ids_and_space(scene: Scene) -> None:
    cluster = scene.cluster
    found = value(cluster, "dirs", "list")["directories"]
    assert [(one["broker"], one["number"], one["path"], one["id"]) for one in found] == [
        (broker, number, str(path), kafka_uuid.to_text(directory_id(path)))
        for broker in cluster.broker_ids
        for number, path in enumerate(cluster.broker(broker).paths, 1)
    ]
    assert all(one["state"] == "ONLINE" for one in found)
    assert all(one["used_bytes"] + one["free_bytes"] == one["total_bytes"] for one in found)


def test_a_watched_table_ends_with_ctrl_c(scene: Scene) -> None:
    cluster = scene.cluster
    words = ["dirs", "list", "--watch", "--interval", "0.1", "--brokers", "1"]
    with started(*words, "--bootstrap-server", cluster.bootstrap) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        heads = 0
        while heads < 3:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            heads += line.startswith("DIR ")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == "jbodlab: interrupted\n"


def test_unknown_directories_are_not_revived_or_cordoned(scene: Scene) -> None:
    cluster = scene.cluster
    for verb in ("revive", "cordon"):
        code, out, err = call(cluster, "dirs", verb, "broker-1:/nowhere")
        assert (code, out) == (1, "")
        assert err.startswith("jbodlab: broker 1 has no log directory /nowhere, it has 1: /")
        assert call(cluster, "dirs", verb, "broker-9/1") == (
            1,
            "",
            "jbodlab: broker 9 is not a live broker of the cluster, which has 1, 2, 3\n",
        )


def test_a_dead_directory_is_shown_and_comes_back(scene: Scene) -> None:
    cluster = scene.cluster
    scene.create("dead", 6, 3)
    path = cluster.broker(2).paths[0]
    wait_for(
        "replicas in their directories",
        lambda: (
            len(found := on_disk(cluster, 2, "dead")) == 6 and found == assigned(cluster, 2, "dead")
        ),
    )
    held = partitions_in(path, "dead")
    assert held
    expected = kafka_uuid.to_text(directory_id(path))

    def offline(*options: str) -> set[int]:
        return {
            one["partition"]
            for topic in value(cluster, "topics", "describe", "dead", *options)
            for one in topic["partitions"]
            if one["offline"] == [2] and 2 not in one["isr"]
        }

    scene.faults.make("chmod000", path)
    try:
        wait_for("the failure", lambda: offline() == held)
        assert offline("--only", "under-replicated") == held

        (broker,) = value(cluster, "dirs", "describe", "--brokers", "2")["brokers"]
        by_path = {one["logDir"]: one for one in broker["logDirs"]}
        assert by_path[str(path)] == {
            "partitions": [],
            "error": "org.apache.kafka.common.errors.KafkaStorageException",
            "logDir": str(path),
        }
        lines = called(cluster, "dirs", "list", "--brokers", "2").splitlines()
        assert lines[1].split() == ["broker-2/1", str(path), "OFFLINE", *"------", expected]
        assert any(line.startswith("broker-2/1: ") for line in lines)
    finally:
        scene.faults.heal(path)

    plural = "" if len(held) == 1 else "s"
    assert called(cluster, "dirs", "revive", "broker-2/1") == (
        f"revived {path} ({expected}) of broker 2: online with {len(held)} replica{plural}\n"
    )
    wait_for("the return", lambda: not offline())
    # There is nothing to revive any more.
    assert call(cluster, "dirs", "revive", f"broker-2:{path}").err == (
        f"jbodlab: cannot revive {path} of broker 2: log directory {path} is already online\n"
    )
