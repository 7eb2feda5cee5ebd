"""jbod-reassign-partitions, and Kafka's own tool, move partitions of this cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bench.kafka import fetch_jars
from tests.cluster.harness import BIN, Cluster, Load, running, wait_for
from tests.cluster.invariants import check, metadata

pytestmark = pytest.mark.cluster

JARS = Path(tempfile.gettempdir()) / "jbodlab-kafka-4.3.1"
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "file.delete.delay.ms": "500",
}
TOPIC = "moved"

Tool = Callable[..., str]


@pytest.fixture
def cluster(cluster_root: Path) -> Iterator[Cluster]:
    with running(cluster_root, brokers=3, dirs=2, settings=SETTINGS) as started:
        yield started


@pytest.fixture(params=["ours", pytest.param("kafkas", marks=[pytest.mark.kafka])])
def tool(request: pytest.FixtureRequest, cluster: Cluster) -> Tool:
    """Runs the tool; returns what it printed."""
    command = [str(BIN / "jbod-reassign-partitions")]
    if request.param == "kafkas":
        for program in ("java", "mvn"):
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
        try:
            fetch_jars(JARS)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"Maven cannot fetch Apache Kafka's jars: {error}")
        name = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{JARS}/*", name]

    def run(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [*command, "--bootstrap-server", cluster.bootstrap, *arguments],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


def written(cluster: Cluster, *partitions: dict[str, object]) -> str:
    """A file that says where partitions shall be."""
    path = cluster.root / "plan.json"
    named = [{"topic": TOPIC, **one} for one in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": named}))
    return str(path)


def verified(tool: Tool, file: str) -> str:
    """What --verify says when nothing is in progress any more."""
    found: str = wait_for(
        "the end of the reassignment",
        lambda: (
            "still in progress" not in (said := tool("--verify", "--reassignment-json-file", file))
            and said
        ),
        60,
    )
    return found


def test_replicas_go_to_directories_of_other_brokers(cluster: Cluster, tool: Tool) -> None:
    cluster.create_topic(TOPIC, 2, 1)
    home = cluster.leaders(TOPIC)
    target = {index: next(b for b in (1, 2, 3) if b != home[index]) for index in home}
    with Load(cluster.bootstrap, TOPIC) as load:
        for k in (0, 1):
            wished = {index: str(cluster.log_dirs(target[index])[k]) for index in home}
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
                assert str(cluster.directory_of(target[index], TOPIC, index)) == path
    check(cluster, load)


def test_what_is_generated_can_be_executed(cluster: Cluster, tool: Tool) -> None:
    cluster.create_topic(TOPIC, 3, 2)
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
    states = metadata(cluster).topics.by_name[TOPIC].partitions
    assert {index: state.replicas for index, state in states.items()} == wanted
    check(cluster)


def test_what_is_under_way_is_listed_throttled_and_cancelled(cluster: Cluster, tool: Tool) -> None:
    cluster.create_topic(TOPIC, 1, 2)
    before = metadata(cluster).topics.by_name[TOPIC].partitions[0].replicas
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
    assert metadata(cluster).topics.by_name[TOPIC].partitions[0].replicas == before[::-1]
    check(cluster)


def fill(cluster: Cluster) -> None:
    """Write 20 MB."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(2000):
        producer.produce(TOPIC, bytes(10_000), partition=0)
        if number % 200 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
