"""Partitions get other brokers while a client writes and another reads, whatever breaks."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition

from jbodlab.ids import BrokerId
from jbodlab.image.partition_registration import PartitionRegistration
from tests.cluster.following_reader import FollowingReader
from tests.cluster.harness import BIN, CONTROLLER_ID, Cluster, Load, running, wait_for
from tests.cluster.invariants import Ledger, check, copies_in, metadata

pytestmark = pytest.mark.cluster

SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "file.delete.delay.ms": "500",
}
TOPIC = "load"


@pytest.fixture
def cluster(cluster_root: Path) -> Iterator[Cluster]:
    with running(cluster_root, brokers=4, dirs=2, settings=SETTINGS) as started:
        yield started


@contextlib.contextmanager
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    alive = [node for node in cluster.brokers if node in cluster.processes]
    client = KafkaAdminClient(
        bootstrap_servers=[f"127.0.0.1:{cluster.ports[broker]}" for broker in alive]
    )
    try:
        yield client
    finally:
        client.close()


def reassign(cluster: Cluster, targets: Mapping[int, Sequence[int] | None]) -> None:
    """Give partitions of the topic to brokers; None cancels."""
    wishes = {
        KafkaTopicPartition(TOPIC, index): None if brokers is None else list(brokers)
        for index, brokers in targets.items()
    }
    with admin(cluster) as client:
        assert client.alter_partition_reassignments(wishes) == dict.fromkeys(wishes)


def under_way(cluster: Cluster) -> dict[int, tuple[list[int], list[int], list[int]]]:
    """What the cluster lists: replicas, adding, removing of each partition."""
    with admin(cluster) as client:
        return {
            one.partition: (each["replicas"], each["adding_replicas"], each["removing_replicas"])
            for one, each in client.list_partition_reassignments().items()
        }


def partition(cluster: Cluster, index: int = 0) -> PartitionRegistration:
    return metadata(cluster).topics.by_name[TOPIC].partitions[index]


def wait_completed(cluster: Cluster, deadline_s: float = 60.0) -> None:
    def completed() -> bool:
        states = metadata(cluster).topics.by_name[TOPIC].partitions.values()
        return not any(state.adding_replicas or state.removing_replicas for state in states)

    wait_for("the end of all reassignments", completed, deadline_s)


def make_topic(cluster: Cluster, replicas: Mapping[int, Sequence[int]]) -> None:
    """A topic with these replicas, which are where they shall be before anything else happens."""
    cluster.create_topic(TOPIC, len(replicas), 1, min_insync_replicas="1")
    reassign(cluster, replicas)
    wait_completed(cluster)


@contextlib.contextmanager
def traffic(cluster: Cluster, partitions: int) -> Iterator[Load]:
    """A writer and a reader; afterwards nothing is missing, and disks and metadata agree."""
    with (
        Load(cluster.bootstrap, TOPIC) as load,
        FollowingReader(cluster.bootstrap, TOPIC, partitions) as reader,
    ):
        yield load
        goes_on = time.monotonic()
        wait_for(
            "acknowledgements at the end",
            lambda: all(load.acknowledged_after(goes_on, each) for each in range(partitions)),
        )
        load.stop()
        wait_for(
            "everything read",
            lambda: sum(map(len, reader.seen.values())) >= len(load.acknowledged),
        )
    assert load.errors == []
    reader.assert_saw_everything_once(load.acknowledged)
    check(cluster, load)


def kill_for_long(cluster: Cluster, broker: int) -> None:
    """Kill a broker and wait until the others have noticed, so that no client turns to it."""
    cluster.kill(broker)
    wait_for(
        "the broker fenced",
        lambda: metadata(cluster).cluster.brokers[BrokerId(broker)].fenced,
    )


def folders(cluster: Cluster, broker: int) -> set[str]:
    """Names of all folders of the topic at a broker, those on their way out included."""
    return {
        path.name
        for log_dir in cluster.log_dirs(broker)
        for path in log_dir.iterdir()
        if path.name.startswith(TOPIC)
    }


def test_partitions_get_other_brokers_and_leaders_under_load(cluster: Cluster) -> None:
    make_topic(cluster, {0: (1, 2), 1: (2, 1), 2: (1, 2)})
    with traffic(cluster, 3) as load:
        reassign(cluster, {0: (3, 4), 1: (4, 3), 2: (2, 4)})
        wait_completed(cluster)

        assert [partition(cluster, index).replicas for index in range(3)] == [
            (3, 4),
            (4, 3),
            (2, 4),
        ]
        assert under_way(cluster) == {}
        assert cluster.leaders(TOPIC)[0] in (3, 4)
    assert load.longest_gap_s() < 5
    wait_for("the end of what is left at broker 1", lambda: folders(cluster, 1) == set())


def test_the_number_of_replicas_grows_and_shrinks_under_load(cluster: Cluster) -> None:
    make_topic(cluster, {0: (1,), 1: (2, 3, 4)})
    with traffic(cluster, 2):
        reassign(cluster, {0: (4, 3, 2, 1), 1: (3,)})
        wait_completed(cluster)
        assert set(partition(cluster, 0).isr) == {1, 2, 3, 4}
        assert partition(cluster, 1).isr == (3,)

        reassign(cluster, {0: (2,), 1: (4, 1)})
        wait_completed(cluster)
        # There and back: the name of the folder is free again.
        reassign(cluster, {0: (1, 2), 1: (3, 1)})
        wait_completed(cluster)


def test_a_dead_target_is_waited_for(cluster: Cluster) -> None:
    make_topic(cluster, {0: (1, 2)})
    kill_for_long(cluster, 4)
    with traffic(cluster, 1) as load:
        reassign(cluster, {0: (4, 1)})
        assert under_way(cluster) == {0: ([4, 1, 2], [4], [2])}
        begun = time.monotonic()
        wait_for("writes meanwhile", lambda: load.acknowledged_after(begun + 1, 0))

        cluster.start_node(4)
        cluster.wait_ready()
        wait_completed(cluster)

        assert partition(cluster).replicas == (4, 1)


def test_cancelling_deletes_the_new_replicas_and_keeps_the_old(cluster: Cluster) -> None:
    make_topic(cluster, {0: (1, 2), 1: (2, 1)})
    before = {broker: cluster.assigned(broker, TOPIC) for broker in (1, 2)}
    kill_for_long(cluster, 4)
    with traffic(cluster, 2):
        reassign(cluster, {0: (3, 4), 1: (3, 4)})
        # One new replica is there and in sync; the other one never comes.
        wait_for("broker 3 in sync", lambda: all(3 in isr for isr in cluster.isr(TOPIC).values()))

        reassign(cluster, {0: None, 1: None})

        assert under_way(cluster) == {}
        assert partition(cluster).replicas == (1, 2)
        wait_for("the end of the new replicas", lambda: folders(cluster, 3) == set())
        assert {broker: cluster.assigned(broker, TOPIC) for broker in (1, 2)} == before
        cluster.start_node(4)
        cluster.wait_ready()
    assert folders(cluster, 4) == set()


def test_a_second_reassignment_replaces_the_first(cluster: Cluster) -> None:
    make_topic(cluster, {0: (1, 2)})
    kill_for_long(cluster, 4)
    with traffic(cluster, 1):
        reassign(cluster, {0: (4, 3)})
        wait_for("broker 3 in sync", lambda: 3 in cluster.isr(TOPIC)[0])

        reassign(cluster, {0: (2, 1)})
        wait_completed(cluster)

        assert partition(cluster).replicas == (2, 1)
        wait_for("the end of the new replica", lambda: folders(cluster, 3) == set())
        cluster.start_node(4)
        cluster.wait_ready()


def test_the_controller_is_killed_in_the_middle(cluster: Cluster) -> None:
    make_topic(cluster, dict.fromkeys(range(4), (1, 2)))
    Ledger(cluster, TOPIC, 4).produce(1000, size=50_000)
    with traffic_behind(cluster, 4):
        reassign(cluster, dict.fromkeys(range(4), (3, 4)))
        cluster.kill(CONTROLLER_ID)
        # Everybody is in sync, and nobody can say so.
        time.sleep(2)
        cluster.start_node(CONTROLLER_ID)
        wait_completed(cluster)
        assert {state.replicas for state in _states(cluster)} == {(3, 4)}


def test_source_and_target_are_killed_in_the_middle(cluster: Cluster) -> None:
    make_topic(cluster, dict.fromkeys(range(4), (1, 2)))
    Ledger(cluster, TOPIC, 4).produce(400, size=50_000)
    with traffic_behind(cluster, 4):
        reassign(cluster, dict.fromkeys(range(4), (3, 4)))
        for broker in (3, 1):
            wait_for("a new replica", lambda: copies_in(cluster.log_dirs(4)[0]))
            cluster.kill(broker)
            time.sleep(0.2)
            cluster.start_node(broker)
        cluster.wait_ready()
        wait_completed(cluster)
        assert {state.replicas for state in _states(cluster)} == {(3, 4)}


def test_a_directory_of_the_target_dies_in_the_middle(cluster: Cluster) -> None:
    make_topic(cluster, {0: (1,)})
    Ledger(cluster, TOPIC, 1).produce(1500, size=50_000)
    with traffic_behind(cluster, 1):
        reassign(cluster, {0: (4,)})
        home = cluster.directory_of(4, TOPIC, 0)
        fault = cluster.inject("chmod000", home)
        wait_for("the failure noticed", lambda: "went offline" in cluster.output(4))
        cluster.heal(fault)
        revive(cluster, 4, home)
        wait_completed(cluster)
        assert partition(cluster).replicas == (4,)
        wait_for("a leader", lambda: partition(cluster).leader == 4)


def test_the_directory_of_the_last_source_dies_in_the_middle(cluster: Cluster) -> None:
    make_topic(cluster, {0: (1,)})
    kill_for_long(cluster, 4)
    with traffic(cluster, 1):
        reassign(cluster, {0: (4,)})
        home = cluster.directory_of(1, TOPIC, 0)
        fault = cluster.inject("chmod000", home)
        wait_for("nobody leads", lambda: partition(cluster).leader == -1)
        cluster.start_node(4)
        cluster.wait_ready([4])
        # Whoever has no records does not lead: everything waits for the source.
        time.sleep(2)
        assert partition(cluster).isr == (1,)

        cluster.heal(fault)
        revive(cluster, 1, home)
        wait_completed(cluster)
        assert partition(cluster).replicas == (4,)


def test_the_target_directory_of_the_metadata_is_used(cluster: Cluster) -> None:
    make_topic(cluster, dict.fromkeys(range(4), (1,)))
    with traffic(cluster, 4):
        reassign(cluster, dict.fromkeys(range(4), (2,)))
        wait_completed(cluster)
        check(cluster)
        # New replicas spread over the directories.
        assert len(set(cluster.assigned(2, TOPIC).values())) == 2


def test_what_is_under_way_shows_in_a_clients_eyes(cluster: Cluster) -> None:
    make_topic(cluster, {0: (1, 2)})
    kill_for_long(cluster, 4)
    reassign(cluster, {0: (4, 2)})

    found = cluster.admin().list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0]
    assert found.replicas == [4, 2, 1]
    assert sorted(found.isrs) == [1, 2]
    with admin(cluster) as client:
        refused = client.alter_partition_reassignments(
            {KafkaTopicPartition(TOPIC, 0): [9], KafkaTopicPartition(TOPIC, 5): [1]}
        )
        assert {one.partition: error.__name__ for one, error in refused.items()} == {
            0: "InvalidReplicationAssignmentError",
            5: "UnknownTopicOrPartitionError",
        }
        assert client.list_partition_reassignments({TOPIC: [1]}) == {}


def revive(cluster: Cluster, broker: int, path: Path) -> None:
    """Bring a healed directory back, as an operator would."""
    command = [str(BIN / "jbod-log-dirs"), "--bootstrap-server", cluster.bootstrap]
    done = subprocess.run(
        [*command, "revive", "--broker", str(broker), "--dir", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def traffic_behind(cluster: Cluster, partitions: int) -> Iterator[Load]:
    """A writer alone, behind records that others wrote before."""
    with Load(cluster.bootstrap, TOPIC) as load:
        yield load
        goes_on = time.monotonic()
        wait_for(
            "acknowledgements at the end",
            lambda: all(load.acknowledged_after(goes_on, each) for each in range(partitions)),
            60,
        )
    assert load.errors == []
    check(cluster)


def _states(cluster: Cluster) -> list[PartitionRegistration]:
    return list(metadata(cluster).topics.by_name[TOPIC].partitions.values())
