"""`jbodlab reassign`, and Kafka's own tool, move partitions of this cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.cluster.commands import call, called, value
from tests.cluster.harness import Cluster, Load, wait_for
from tests.cluster.invariants import check
from tests.cluster.reassign_tools import Kafkas, Ours, ReassignTool
from tests.cluster.scenes import Scene, Stage

pytestmark = pytest.mark.cluster

TOPIC = "moved"


@pytest.fixture
def scene(stage: Stage) -> Iterator[Scene]:
    with stage.scene() as scene:
        yield scene


@pytest.fixture
def cluster(scene: Scene) -> Cluster:
    return scene.cluster


@pytest.fixture(params=["ours", pytest.param("kafkas", marks=[pytest.mark.kafka])])
def tool(request: pytest.FixtureRequest, cluster: Cluster) -> ReassignTool:
    if request.param == "kafkas":
        return Kafkas(cluster, request.getfixturevalue("kafka_tools"))
    return Ours(cluster)


def written(cluster: Cluster, *partitions: dict[str, object]) -> str:
    """A file that says where partitions shall be."""
    path = cluster.root / "plan.json"
    named = [{"topic": TOPIC, **one} for one in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": named}))
    return str(path)


def wait_done(tool: ReassignTool, file: str) -> None:
    """Wait for the end of a reassignment.

    The controller knows of it before the broker that is asked where the replicas are.
    """
    wait_for("the end of the reassignment", lambda: set(tool.states(file).values()) == {"done"}, 60)


def test_replicas_go_to_directories_of_other_brokers(
    scene: Scene, cluster: Cluster, tool: ReassignTool
) -> None:
    scene.create(TOPIC, 2, 1)
    home = cluster.leaders(TOPIC)
    target = {index: next(b for b in (1, 2, 3) if b != home[index]) for index in home}
    with Load(cluster.bootstrap, TOPIC) as load:
        for k in (0, 1):
            wished = {index: str(cluster.broker(target[index]).paths[k]) for index in home}
            file = written(
                cluster,
                *(
                    {"partition": index, "replicas": [target[index]], "log_dirs": [wished[index]]}
                    for index in home
                ),
            )
            tool.execute(file)
            wait_done(tool, file)

            for index, path in wished.items():
                assert str(cluster.broker(target[index]).log_dir_of(TOPIC, index).path) == path
    check(cluster, load)


def test_what_is_generated_can_be_executed(
    scene: Scene, cluster: Cluster, tool: ReassignTool
) -> None:
    scene.create(TOPIC, 3, 2)
    proposal = cluster.root / "proposal.json"
    proposal.write_text(tool.proposal(TOPIC, "1,3"))
    wanted = {
        one["partition"]: tuple(one["replicas"])
        for one in json.loads(proposal.read_text())["partitions"]
    }
    assert {broker for brokers in wanted.values() for broker in brokers} == {1, 3}
    tool.execute(str(proposal))
    wait_done(tool, str(proposal))
    states = cluster.image().topics.by_name[TOPIC].partitions
    assert {index: state.replicas for index, state in states.items()} == wanted
    check(cluster)


def test_what_is_under_way_is_listed_throttled_and_cancelled(
    scene: Scene, cluster: Cluster, tool: ReassignTool
) -> None:
    scene.create(TOPIC, 1, 2)
    before = cluster.image().topics.by_name[TOPIC].partitions[0].replicas
    (other,) = {1, 2, 3} - set(before)
    file = written(cluster, {"partition": 0, "replicas": [before[1], other]})
    fill(cluster)

    tool.execute(file, throttle=200_000)

    assert tool.ongoing() == {"moved-0"}
    assert tool.states(file) == {"moved-0": "moving"}

    tool.cancel(file)

    assert tool.ongoing() == set()
    # The wished order stays; only what was to come is gone.
    assert cluster.image().topics.by_name[TOPIC].partitions[0].replicas == before[::-1]
    check(cluster)


def throttles(cluster: Cluster) -> set[str]:
    (topic,) = value(cluster, "topics", "describe", TOPIC)
    return {key for key in topic["configs"] if "throttled" in key}


def test_a_reassignment_says_what_it_replaced_and_its_throttles_go_with_it(
    scene: Scene, cluster: Cluster
) -> None:
    scene.create(TOPIC, 1, 2)
    before = cluster.image().topics.by_name[TOPIC].partitions[0].replicas
    (other,) = {1, 2, 3} - set(before)
    file = written(cluster, {"partition": 0, "replicas": [before[1], other]})
    fill(cluster)

    asked = call(cluster, "reassign", "execute", file)
    assert (asked.code, asked.out) == (1, "")
    assert asked.err == "jbodlab: reassign moved-0? Confirm with --yes\n"
    done = call(cluster, "reassign", "execute", file, "--yes", "--throttle", 200_000)

    assert done.code == 0
    assert done.err.endswith("started the reassignment of 1 partition\n")
    (one,) = json.loads(done.out)["partitions"]
    paths = [str(cluster.broker(each).log_dir_of(TOPIC, 0).path) for each in before]
    assert one == {"topic": TOPIC, "partition": 0, "replicas": list(before), "log_dirs": paths}
    assert throttles(cluster)
    assert called(cluster, "reassign", "list").splitlines()[1].split() == [
        *("moved-0", f"{before[1]},{other},{before[0]}", str(other), str(before[0]))
    ]
    again = call(cluster, "reassign", "execute", file, "--yes")
    assert again.code == 1
    assert "--additional starts this reassignment beside them" in again.err
    # A higher limit for the one that is under way.
    called(cluster, "reassign", "execute", file, "--yes", "--additional", "--throttle", 10**9)
    wait_for("the end", lambda: call(cluster, "reassign", "verify", file).code == 0, 60)
    assert throttles(cluster) == set()
    check(cluster)


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ({"topic": "nope", "replicas": [1]}, "unknown topic 'nope'"),
        ({"topic": TOPIC, "partition": 77, "replicas": [1]}, "partition moved-77 does not exist"),
        (
            {"topic": TOPIC, "replicas": [1, 9]},
            "broker 9 is not a live broker of the cluster, which has 1, 2, 3",
        ),
    ],
)
def test_a_partition_or_broker_that_does_not_exist_is_refused_before_anything_begins(
    scene: Scene, cluster: Cluster, partition: dict[str, object], message: str
) -> None:
    scene.create(TOPIC, 1, 1)
    file = written(cluster, {"partition": 0, **partition})
    assert call(cluster, "reassign", "execute", file, "--yes") == (1, "", f"jbodlab: {message}\n")
    assert value(cluster, "reassign", "list") == []


def fill(cluster: Cluster) -> None:
    """Write 20 MB."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(2000):
        producer.produce(TOPIC, bytes(10_000), partition=0)
        if number % 200 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
