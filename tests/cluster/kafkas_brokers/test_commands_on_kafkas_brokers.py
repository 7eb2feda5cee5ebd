"""`jbodlab topics`, `dirs` and `reassign` on a cluster of Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.cluster.commands import call, called, dir_states, value
from tests.cluster.harness import Cluster, partitions_in, wait_for
from tests.kafka.tools import LOG_DIRS, KafkaTools

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.xdist_group("a cluster of Apache Kafka"),
]


@pytest.fixture(scope="module")
def cluster(kafkas_cluster: Cluster) -> Iterator[Cluster]:
    kafkas_cluster.create_topic("foo", 3, 2)
    fill(kafkas_cluster, "foo", 3)
    yield kafkas_cluster
    called(kafkas_cluster, "topics", "delete", "foo", "--yes")
    wait_for("the topic's end", lambda: "foo" not in called(kafkas_cluster, "topics", "list"))


def fill(cluster: Cluster, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(partitions * 300):
        producer.produce(topic, bytes(10_000), partition=number % partitions)
        if number % 100 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0


def foo(cluster: Cluster) -> Any:
    (topic,) = value(cluster, "topics", "describe", "foo")
    return topic


def test_topics_grow_and_go(cluster: Cluster) -> None:
    called(cluster, "topics", "create", "tmp", "--assignment", "1:2,2:3")
    assert call(cluster, "topics", "create", "tmp2", "--config", "foo=bar").code == 1
    called(cluster, "topics", "alter", "tmp", "--partitions", 3, "--assignment", "1:2,2:3,3:1")

    def replicas() -> list[list[int]]:
        (topic,) = value(cluster, "topics", "describe", "tmp")
        return [one["replicas"] for one in topic["partitions"]]

    wait_for("the third partition", lambda: replicas() == [[1, 2], [2, 3], [3, 1]])
    assert called(cluster, "topics", "delete", "--matching", "t.p", "--yes") == (
        "deleted topic tmp\n"
    )
    wait_for("the topic's end", lambda: "tmp" not in called(cluster, "topics", "list"))


def test_the_json_of_directories_is_that_of_kafkas_tool(
    cluster: Cluster, kafka_tools: KafkaTools
) -> None:
    options = ("--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", "foo")
    kafkas = kafka_tools.run(LOG_DIRS, *options).lines[-1]

    ours = value(cluster, "dirs", "describe", "--topics", "foo")

    assert normalised(ours) == normalised(json.loads(kafkas))


def normalised(found: Any) -> Any:
    """The JSON of directories sorted; Kafka's order differs from call to call."""
    found["brokers"].sort(key=lambda broker: broker["broker"])
    for broker in found["brokers"]:
        broker["logDirs"].sort(key=lambda log_dir: log_dir["logDir"])
        for log_dir in broker["logDirs"]:
            log_dir["partitions"].sort(key=lambda one: (one["partition"], one["isFuture"]))
    return found


def test_the_table_does_without_ids_here(cluster: Cluster) -> None:
    found = value(cluster, "dirs", "list", "--brokers", "1")["directories"]
    assert {one["path"] for one in found} == set(map(str, cluster.broker(1).paths))
    assert {(one["id"], one["state"]) for one in found} == {(None, "ONLINE")}


def test_directories_are_cordoned_and_uncordoned(cluster: Cluster) -> None:
    paths = [str(path) for path in cluster.broker(2).paths]
    one, two, three = paths
    head = "cordoned directories of broker 2: "

    def are(*states: str) -> bool:
        found = dir_states(cluster)
        return tuple(found[path] for path in paths) == states

    first = called(cluster, "dirs", "cordon", f"broker-2:{one}", f"broker-2:{three}")
    assert first == f"{head}{one},{three}\n"
    wait_for("both to be cordoned", lambda: are("CORDONED", "ONLINE", "CORDONED"))
    assert called(cluster, "dirs", "cordon", "broker-2") == f"{head}*\n"
    wait_for("all to be cordoned", lambda: are(*["CORDONED"] * 3))
    assert called(cluster, "dirs", "uncordon", f"broker-2:{two}") == (
        f"{head}{','.join(sorted([one, three]))}\n"
    )
    wait_for("one to be uncordoned", lambda: are("CORDONED", "ONLINE", "CORDONED"))
    assert called(cluster, "dirs", "uncordon", "broker-2") == f"{head}none\n"
    wait_for("all to be uncordoned", lambda: are(*["ONLINE"] * 3))


def test_a_broker_of_apache_kafka_revives_nothing(cluster: Cluster) -> None:
    done = call(cluster, "dirs", "revive", f"broker-1:{cluster.broker(1).paths[0]}")
    assert done.code == 1
    assert done.err.startswith("jbodlab: broker 1 does not know the request ReviveLogDir")
    assert done.err.count("\n") == 1


def plan_of(cluster: Cluster, path: Path) -> tuple[int, Path, Path]:
    """Write a file that moves foo-0 to another broker and foo-1 to another directory.

    Returns:
        The broker that moves foo-1, from where, and to where.
    """
    replicas = {one["partition"]: one["replicas"] for one in foo(cluster)["partitions"]}
    stays, goes = replicas[0]
    (comes,) = set(cluster.broker_ids) - {stays, goes}
    first = replicas[1][0]
    source = cluster.broker(first).log_dir_of("foo", 1).path
    target = next(path for path in cluster.broker(first).paths if path != source)
    log_dirs = [str(target), "any"]
    plan = {
        "version": 1,
        "partitions": [
            {"topic": "foo", "partition": 0, "replicas": [stays, comes]},
            {"topic": "foo", "partition": 1, "replicas": replicas[1], "log_dirs": log_dirs},
        ],
    }
    path.write_text(json.dumps(plan))
    return first, source, target


def test_a_reassignment_is_throttled_and_cancelled(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    broker, source, target = plan_of(cluster, path)

    slow = ("--throttle", 10, "--dirs-throttle", 10)
    called(cluster, "reassign", "execute", path, "--yes", *slow)

    assert [one["partition"] for one in value(cluster, "reassign", "list")] == [0]
    done = call(cluster, "reassign", "verify", path, "--output", "json")
    states = [(one["partition"], one["broker"], one["state"]) for one in json.loads(done.out)]
    assert (done.code, states) == (
        1,
        [(0, None, "moving"), (1, None, "done"), (1, broker, "moving")],
    )
    (move,) = value(cluster, "dirs", "list", "--brokers", broker)["moves"]
    assert (move["partition"], move["source"], move["target"]) == (
        "foo-1",
        str(source),
        str(target),
    )
    assert called(cluster, "reassign", "cancel", path, "--yes") == (
        "cancelled 1 reassignment and 1 move between directories\n"
    )
    wait_for("the end", lambda: value(cluster, "reassign", "list") == [])


def test_a_reassignment_reaches_its_end_and_the_throttles_go(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    broker, _, target = plan_of(cluster, path)
    called(cluster, "reassign", "execute", path, "--yes", "--throttle", 100_000_000)

    # The controller knows the end of a reassignment before the broker that is asked for replicas.
    verify = ("reassign", "verify", path)
    wait_for("the end", lambda: call(cluster, *verify, "--keep-throttles").code == 0)
    wait_for(
        "the replica's place",
        lambda: cluster.broker(broker).log_dir_of("foo", 1).path == target,
    )
    assert "leader.replication.throttled.replicas" in foo(cluster)["configs"]
    assert "removed the throttles" in call(cluster, *verify).err
    wait_for("the throttles' end", lambda: "throttled" not in str(foo(cluster)["configs"]))


def test_a_proposal_spreads_the_leaders(cluster: Cluster) -> None:
    found = json.loads(called(cluster, "reassign", "generate", "foo", "--brokers", "1,2,3"))
    assert [one["partition"] for one in found["partitions"]] == [0, 1, 2]
    assert all(len(set(one["replicas"])) == 2 for one in found["partitions"])
    assert sorted(one["replicas"][0] for one in found["partitions"]) == [1, 2, 3]


def test_a_dead_directory_is_offline_and_its_replicas_are_named(cluster: Cluster) -> None:
    broker = cluster.broker_ids[-1]
    path = next(path for path in cluster.broker(broker).paths if partitions_in(path, "foo"))
    dead = partitions_in(path, "foo")
    # For the rest of the cluster's life: only a restart would bring it back.
    cluster.log_dir_at(path).fails()
    wait_for(
        "the failure",
        lambda: (
            {one["partition"] for one in foo(cluster)["partitions"] if one["offline"] == [broker]}
            == dead
        ),
    )
    assert dir_states(cluster)[str(path)] == "OFFLINE"
