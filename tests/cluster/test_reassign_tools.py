"""jbod-reassign-partitions, and Kafka's own tool, move partitions of this cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from tests.cluster.harness import Cluster, Load, script, wait_for
from tests.cluster.invariants import check
from tests.cluster.scenes import Scene, Stage
from tests.kafka.tools import REASSIGN, KafkaTools

pytestmark = pytest.mark.cluster

TOPIC = "moved"

Tool = Callable[..., str]


@pytest.fixture
def scene(stage: Stage) -> Iterator[Scene]:
    with stage.scene() as scene:
        yield scene


@pytest.fixture
def cluster(scene: Scene) -> Cluster:
    return scene.cluster


def run_ours(name: str, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*script(name), *arguments], capture_output=True, text=True, timeout=90, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(params=["ours", pytest.param("kafkas", marks=[pytest.mark.kafka])])
def tool(request: pytest.FixtureRequest, cluster: Cluster) -> Tool:
    """Runs the tool; returns what it printed."""

    def run(*arguments: str, code: int = 0) -> str:
        options = ("--bootstrap-server", cluster.bootstrap, *arguments)
        if request.param == "kafkas":
            tools: KafkaTools = request.getfixturevalue("kafka_tools")
            found, out, err = tools.run(REASSIGN, *options)
        else:
            found, out, err = run_ours("jbod-reassign-partitions", *options)
        assert found == code, out + err
        return out

    return run


def written(cluster: Cluster, *partitions: dict[str, object]) -> str:
    """A file that says where partitions shall be."""
    path = cluster.root / "plan.json"
    named = [{"topic": TOPIC, **one} for one in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": named}))
    return str(path)


def verified(tool: Tool, file: str) -> str:
    """What --verify says when nothing is in progress any more.

    The controller knows of an end before the broker that is asked where the replicas are.
    """

    def said_at_the_end() -> str | None:
        said = tool("--verify", "--reassignment-json-file", file)
        return None if "still in progress" in said or " rather than " in said else said

    found: str = wait_for("the end of the reassignment", said_at_the_end, 60)
    return found


def test_replicas_go_to_directories_of_other_brokers(
    scene: Scene, cluster: Cluster, tool: Tool
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
            said = tool("--execute", "--reassignment-json-file", file)
            assert "Successfully started partition reassignments for moved-0,moved-1" in said
            for index in home:
                assert (
                    f"Successfully started moving log directory to {wished[index]} for replica "
                    f"moved-{index} with broker {target[index]}"
                ) in said

            said = verified(tool, file)

            assert "Reassignment of partition moved-0 is completed." in said
            assert f"Reassignment of replica moved-1-{target[1]} completed successfully." in said
            assert "Clearing broker-level throttles on brokers 1,2,3" in said
            for index, path in wished.items():
                assert str(cluster.broker(target[index]).log_dir_of(TOPIC, index).path) == path
    check(cluster, load)


def test_what_is_generated_can_be_executed(scene: Scene, cluster: Cluster, tool: Tool) -> None:
    scene.create(TOPIC, 3, 2)
    topics = cluster.root / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": TOPIC}]}))

    said = tool("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,3")

    proposal = cluster.root / "proposal.json"
    proposal.write_text(said.splitlines()[-1])
    wanted = {
        one["partition"]: tuple(one["replicas"])
        for one in json.loads(proposal.read_text())["partitions"]
    }
    assert {broker for brokers in wanted.values() for broker in brokers} == {1, 3}
    tool("--execute", "--reassignment-json-file", str(proposal))
    verified(tool, str(proposal))
    states = cluster.image().topics.by_name[TOPIC].partitions
    assert {index: state.replicas for index, state in states.items()} == wanted
    check(cluster)


def test_what_is_under_way_is_listed_throttled_and_cancelled(
    scene: Scene, cluster: Cluster, tool: Tool
) -> None:
    scene.create(TOPIC, 1, 2)
    before = cluster.image().topics.by_name[TOPIC].partitions[0].replicas
    (other,) = {1, 2, 3} - set(before)
    file = written(cluster, {"partition": 0, "replicas": [before[1], other]})
    fill(cluster)

    tool("--execute", "--reassignment-json-file", file, "--throttle", "200000")

    listed = tool("--list")
    assert listed.startswith("Current partition reassignments:")
    assert f"adding: {other}. removing: {before[0]}." in listed
    said = tool("--verify", "--reassignment-json-file", file)
    assert "Reassignment of partition moved-0 is still in progress." in said

    said = tool("--cancel", "--reassignment-json-file", file)

    assert "Successfully cancelled partition reassignment for: moved-0" in said
    assert tool("--list").strip() == "No partition reassignments found."
    # The wished order stays; only what was to come is gone.
    assert cluster.image().topics.by_name[TOPIC].partitions[0].replicas == before[::-1]
    check(cluster)


def fill(cluster: Cluster) -> None:
    """Write 20 MB."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(2000):
        producer.produce(TOPIC, bytes(10_000), partition=0)
        if number % 200 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
