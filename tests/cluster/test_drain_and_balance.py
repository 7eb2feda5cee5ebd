"""Draining and balancing on real clusters: ours, and one of Apache Kafka."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from admin_tool import log_dirs, topics
from tests.cluster.harness import Cluster, partitions_in, wait_for
from tests.cluster.scenes import Stage

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("a cluster of Apache Kafka")]

SIZES = (6, 5, 4, 3, 2, 1)
"""Hundreds of records of 10,000 bytes in each partition."""

Tool = Callable[..., tuple[int, list[str]]]


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
def tool(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    def run(*arguments: str, main: Any = log_dirs.main) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = main(["--bootstrap-server", cluster.bootstrap, *arguments])
        printed = capsys.readouterr()
        return code, (printed.out + printed.err).splitlines()

    return run


@pytest.fixture
def topic(cluster: Cluster, tool: Tool) -> Iterator[str]:
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
    assert tool("--delete", "--topic", name, main=topics.main)[0] == 0
    wait_for("the folders gone", lambda: not sum(map(len, held(cluster, name).values())))


def held(cluster: Cluster, topic: str, broker: int = 1) -> dict[Path, set[int]]:
    return {path: partitions_in(path, topic) for path in cluster.broker(broker).paths}


def under_way(cluster: Cluster, topic: str, broker: int = 1) -> bool:
    return any(
        entry.name.startswith(f"{topic}-") and entry.name.endswith("-future")
        for path in cluster.broker(broker).paths
        for entry in path.iterdir()
    )


def test_a_directory_is_drained(cluster: Cluster, topic: str, tool: Tool) -> None:
    source = cluster.broker(1).paths[0]
    before = held(cluster, topic)
    drain = ["drain", "--broker", "1", "--dir", str(source)]

    code, lines = tool(*drain)
    assert code == 0, lines
    assert lines[0].startswith(f"Plan for broker 1: {len(before[source])} move")
    assert lines[-1] == "Nothing is moved without --execute."
    assert f"New replicas may still be placed in {source}; cordon it to keep them out." in lines
    assert held(cluster, topic) == before

    code, lines = tool(*drain, "--execute", "--wait")
    assert code == 0, lines
    after = held(cluster, topic)
    assert after[source] == set()
    assert set().union(*after.values()) == set(range(len(SIZES)))
    assert not under_way(cluster, topic)
    assert held(cluster, topic, broker=2)
    effect = lines[lines.index("Broker 1:") :]
    (shown,) = [line for line in effect if line.startswith(f"{source} ")]
    assert re.search(r" 0 B +\S+ \S+$", shown)


def test_what_the_broker_refuses_to_move_stays_and_all_others_are_waited_for(
    cluster: Cluster, topic: str, tool: Tool
) -> None:
    source = max(cluster.broker(1).paths, key=lambda path: len(partitions_in(path, topic)))
    long = "n" * 230
    wanted = NewTopic(long, 8, replica_assignment=[[1]] * 8)
    cluster.admin().create_topics([wanted])[long].result(30)
    cluster.wait_leaders(long)
    wait_for("the folders", lambda: sum(map(len, held(cluster, long).values())) == 8)
    staying = partitions_in(source, long)
    assert staying
    drain = ["drain", "--broker", "1", "--dir", str(source)]
    try:
        code, lines = tool(*drain, "--execute", "--wait")

        assert code == 1, lines
        assert held(cluster, topic)[source] == set()
        assert not under_way(cluster, topic)
        assert partitions_in(source, long) == staying
        said = [line for line in lines if " was not moved: " in line]
        assert {line.split()[0] for line in said} == {f"{long}-{each}-1" for each in staying}
        assert all("the topic's name is too long" in line for line in said)
        assert all("by jbod-reassign-partitions" in line for line in said)
        assert "Broker 1:" in lines
    finally:
        assert tool("--delete", "--topic", long, main=topics.main)[0] == 0


def test_what_cannot_be_drained_is_refused(cluster: Cluster, topic: str, tool: Tool) -> None:
    source, *others = cluster.broker(1).paths
    cordon = ["--broker", "1", "--dir", ",".join(map(str, others))]
    assert tool("cordon", *cordon)[0] == 0
    try:
        wait_for(
            "the others cordoned",
            lambda: "CORDONED" in "".join(tool("--describe", "--table")[1]),
        )
        code, lines = tool("drain", "--broker", "1", "--dir", str(source), "--execute")
        assert code == 1
        assert f"{source} does not fit into the other log directories: " in lines[0]
        assert {f"  {other}: takes nothing" for other in others} <= set(lines)
        assert not under_way(cluster, topic)
    finally:
        assert tool("uncordon", *cordon)[0] == 0

    code, lines = tool("drain", "--broker", "1", "--dir", "/nowhere")
    assert (code, lines) == (
        1,
        [f"/nowhere is no log directory of broker 1: {','.join(map(str, [source, *others]))}"],
    )
    code, lines = tool("drain", "--broker", "7", "--dir", str(source))
    assert (code, lines) == (1, ["broker 7 is not a live broker of the cluster: 1,2,3"])


def test_bytes_are_evened_out(cluster: Cluster, topic: str, tool: Tool) -> None:
    for path in cluster.broker(1).paths[1:]:
        assert tool("drain", "--broker", "1", "--dir", str(path), "--execute", "--wait")[0] == 0
    # Each was drained into the others, and so the last of them is empty.
    assert not all(held(cluster, topic).values())

    code, lines = tool("balance", "--plan", "--broker", "1")
    assert code == 0, lines
    assert lines[-1] == "Nothing is moved without --execute."

    code, lines = tool("balance", "--execute", "--wait", "--broker", "1")
    assert code == 0, lines
    sums = [sum(SIZES[index] for index in each) for each in held(cluster, topic).values()]
    assert max(sums) - min(sums) <= 1, (sums, lines)

    code, lines = tool("balance", "--status")
    assert code == 0
    assert any(line.startswith("broker 1: 0 moves under way; ") for line in lines)
    assert tool("balance", "--cancel") == (0, ["No move between log directories is under way."])
    code, lines = tool("balance", "--execute", "--broker", "1")
    assert (code, lines[-1]) == (0, "Everything is even enough.")


def test_moves_are_cancelled(cluster: Cluster, topic: str, tool: Tool) -> None:
    source = max(cluster.broker(1).paths, key=lambda path: len(partitions_in(path, topic)))
    before = held(cluster, topic)
    code, lines = tool("drain", "--broker", "1", "--dir", str(source), "--execute")
    assert code == 0, lines

    code, lines = tool("balance", "--cancel", "--broker", "1")
    assert code == 0, lines

    wait_for("no move under way", lambda: not under_way(cluster, topic))
    # Those that were done before stay where they are.
    after = held(cluster, topic)
    assert set().union(*after.values()) == set().union(*before.values())
