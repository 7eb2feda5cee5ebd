"""Draining and balancing on real clusters: ours, and one of Apache Kafka."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from tests.cluster.commands import call, called, dir_states, value
from tests.cluster.harness import Cluster, partitions_in, wait_for
from tests.cluster.scenes import Stage

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("a cluster of Apache Kafka")]

SIZES = (6, 5, 4, 3, 2, 1)
"""Hundreds of records of 10,000 bytes in each partition."""

numbers = itertools.count(1)


@pytest.fixture(params=[pytest.param("kafkas", marks=[pytest.mark.kafka]), "ours"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "kafkas":
        yield request.getfixturevalue("kafkas_cluster")
    else:
        stage: Stage = request.getfixturevalue("stage")
        with stage.scene() as scene:
            yield scene.cluster


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[str]:
    """A topic with partitions of different sizes, all of them on brokers 1 and 2."""
    name = f"sized-{next(numbers)}"
    wanted = NewTopic(name, len(SIZES), replica_assignment=[[1, 2] for _ in SIZES])
    cluster.admin().create_topics([wanted])[name].result(30)
    cluster.wait_leaders(name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for index, hundreds in enumerate(SIZES):
        for _ in range(hundreds * 100):
            producer.produce(name, bytes(10_000), partition=index)
        assert producer.flush(30) == 0
    yield name
    called(cluster, "topics", "delete", name, "--yes")
    wait_for("the folders gone", lambda: not sum(map(len, held(cluster, name).values())))


def held(cluster: Cluster, topic: str, broker: int = 1) -> dict[Path, set[int]]:
    return {path: partitions_in(path, topic) for path in cluster.broker(broker).paths}


def under_way(cluster: Cluster, topic: str, broker: int = 1) -> bool:
    return any(
        entry.name.startswith(f"{topic}-") and entry.name.endswith("-future")
        for path in cluster.broker(broker).paths
        for entry in path.iterdir()
    )


def test_a_directory_is_drained(cluster: Cluster, topic: str) -> None:
    source = cluster.broker(1).paths[0]
    before = held(cluster, topic)
    drain = ["dirs", "drain", f"broker-1:{source}"]

    done = call(cluster, *drain, "--dry-run")
    assert done.code == 0, done
    # Tests before this one may have left topics in the cluster.
    replicas = [path for path in source.iterdir() if re.fullmatch(r".+-\d+", path.name)]
    assert done.out.startswith(f"plan for broker 1: {len(replicas)} move")
    assert done.err == (
        f"{source} still takes new replicas; `jbodlab dirs cordon` keeps them out\n"
    )
    asked = call(cluster, *drain)
    assert asked.code == 1
    assert asked.err.endswith(f"out of {source} of broker 1? Confirm with --yes\n")
    assert held(cluster, topic) == before

    lines = called(cluster, *drain, "--yes", "--wait").splitlines()
    after = held(cluster, topic)
    assert after[source] == set()
    assert set().union(*after.values()) == set(range(len(SIZES)))
    assert not under_way(cluster, topic)
    assert held(cluster, topic, broker=2)
    effect = lines[lines.index("broker 1:") :]
    (shown,) = [line for line in effect if line.startswith(f"{source} ")]
    assert re.search(r" 0 B +\S+ \S+$", shown)


def test_what_the_broker_refuses_to_move_stays_and_all_others_are_waited_for(
    cluster: Cluster, topic: str
) -> None:
    source = max(cluster.broker(1).paths, key=lambda path: len(partitions_in(path, topic)))
    long = "n" * 230
    wanted = NewTopic(long, 8, replica_assignment=[[1]] * 8)
    cluster.admin().create_topics([wanted])[long].result(30)
    cluster.wait_leaders(long)
    wait_for("the folders", lambda: sum(map(len, held(cluster, long).values())) == 8)
    staying = partitions_in(source, long)
    assert staying
    try:
        done = call(cluster, "dirs", "drain", f"broker-1:{source}", "--yes", "--wait")

        assert done.code == 1, done
        assert held(cluster, topic)[source] == set()
        assert not under_way(cluster, topic)
        assert partitions_in(source, long) == staying
        *_, last = done.err.splitlines()
        said = [line for line in done.err.splitlines() if line.startswith(long)]
        assert {line.split(":")[0] for line in said} == {f"{long}-{each}-1" for each in staying}
        assert all("the topic's name is too long" in line for line in said)
        assert all("with `jbodlab reassign execute`" in line for line in said)
        assert last.startswith(f"jbodlab: {len(staying)} replica")
        assert "broker 1:" in done.out.splitlines()
    finally:
        called(cluster, "topics", "delete", long, "--yes")


def test_what_cannot_be_drained_is_refused(cluster: Cluster, topic: str) -> None:
    source, *others = cluster.broker(1).paths
    names = [f"broker-1:{other}" for other in others]
    called(cluster, "dirs", "cordon", *names)
    try:
        wait_for("the others cordoned", lambda: "CORDONED" in dir_states(cluster).values())
        done = call(cluster, "dirs", "drain", f"broker-1:{source}", "--yes")
        assert (done.code, done.out) == (1, "")
        assert f"{source} does not fit into the other log directories: " in done.err
        assert all(f"{other} takes nothing" in done.err for other in others)
        assert not under_way(cluster, topic)
    finally:
        called(cluster, "dirs", "uncordon", *names)

    done = call(cluster, "dirs", "drain", "broker-1:/nowhere", "--yes")
    assert done.code == 1
    assert done.err.startswith("jbodlab: broker 1 has no log directory /nowhere, it has 1: ")
    assert call(cluster, "dirs", "drain", "broker-7/1", "--yes") == (
        1,
        "",
        "jbodlab: broker 7 is not a live broker of the cluster, which has 1, 2, 3\n",
    )


def test_bytes_are_evened_out(cluster: Cluster, topic: str) -> None:
    for path in cluster.broker(1).paths[1:]:
        called(cluster, "dirs", "drain", f"broker-1:{path}", "--yes", "--wait")
    # Each was drained into the others, and so the last of them is empty.
    assert not all(held(cluster, topic).values())
    balance = ["dirs", "balance", "--brokers", "1"]

    before = held(cluster, topic)
    assert called(cluster, *balance, "--dry-run").startswith("plan for broker 1: ")
    found = value(cluster, *balance, "--dry-run")
    (plan,) = found["plans"]
    assert (plan["broker"], found["not_moved"]) == (1, [])
    assert {one["path"] for one in plan["directories"]} == set(map(str, before))
    assert held(cluster, topic) == before

    said = called(cluster, *balance, "--yes", "--wait")
    sums = [sum(SIZES[index] for index in each) for each in held(cluster, topic).values()]
    assert max(sums) - min(sums) <= 1, (sums, said)

    assert value(cluster, "dirs", "list")["moves"] == []
    cancelled = called(cluster, "dirs", "balance", "--cancel")
    assert cancelled == "no move between directories is under way\n"
    found = value(cluster, "dirs", "balance", "--cancel")
    assert found == {"cancelled": [], "not_cancelled": []}
    assert called(cluster, *balance).endswith("already balanced\n")


def test_moves_are_cancelled(cluster: Cluster, topic: str) -> None:
    source = max(cluster.broker(1).paths, key=lambda path: len(partitions_in(path, topic)))
    before = held(cluster, topic)
    called(cluster, "dirs", "drain", f"broker-1:{source}", "--yes")

    called(cluster, "dirs", "balance", "--cancel", "--brokers", "1", "--yes")

    wait_for("no move under way", lambda: not under_way(cluster, topic))
    # Those that were done before stay where they are.
    after = held(cluster, topic)
    assert set().union(*after.values()) == set().union(*before.values())


def test_single_replicas_are_moved(cluster: Cluster, topic: str) -> None:
    paths = cluster.broker(1).paths
    source = next(path for path in paths if 0 in partitions_in(path, topic))
    target = next(path for path in paths if path != source)
    move = ["dirs", "move", f"{topic}-0", "--to", f"broker-1:{target}"]

    asked = call(cluster, *move)
    assert asked == (
        1,
        "",
        f"jbodlab: move {topic}-0 of broker 1 to {target}? Confirm with --yes\n",
    )
    said = called(cluster, *move, "--yes", "--wait")

    assert said == "started 1 move\n"
    assert 0 in partitions_in(target, topic)
    elsewhere = call(cluster, "dirs", "move", f"{topic}-0", "--to", "broker-3/1", "--yes")
    assert elsewhere.code == 1
    assert elsewhere.err.startswith(f"jbodlab: broker 3 has no online replica of {topic}-0; ")
