"""Partitions get other brokers while a client writes and another reads, whatever breaks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition

from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.ids import BrokerId
from tests.cluster.configs import BROKER, TOPIC, alter, client
from tests.cluster.following_reader import FollowingReader
from tests.cluster.harness import Load, wait_for
from tests.cluster.invariants import check
from tests.cluster.moving import fill
from tests.cluster.scenes import Scene, Stages

pytestmark = pytest.mark.cluster

FOUR = {"brokers": 4}
"""Two pairs of brokers that have nothing in common."""


@contextlib.contextmanager
def reassigning(stages: Stages, replicas: Sequence[Sequence[int]]) -> Iterator[Reassigning]:
    """A scene with a topic whose partitions have these replicas, all of them in their places."""
    with stages.of(**FOUR).scene() as scene:
        yield Reassigning(scene, scene.topic_at(replicas, min_insync_replicas="1"))


class Reassigning:
    """A scene around the partitions of one topic."""

    def __init__(self, scene: Scene, topic: str) -> None:
        self.scene = scene
        self.cluster = scene.cluster
        self.topic = topic

    @contextlib.contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        alive = [broker.address for broker in self.cluster.brokers if broker.is_running]
        client = KafkaAdminClient(bootstrap_servers=alive)
        try:
            yield client
        finally:
            client.close()

    def reassign(self, targets: Mapping[int, Sequence[int] | None]) -> None:
        """Give partitions to brokers; None cancels."""
        wishes = {
            KafkaTopicPartition(self.topic, index): None if brokers is None else list(brokers)
            for index, brokers in targets.items()
        }
        with self.admin() as client:
            assert client.alter_partition_reassignments(wishes) == dict.fromkeys(wishes)

    def under_way(self) -> dict[int, tuple[list[int], list[int], list[int]]]:
        """The reassignments that are listed: replicas, adding, removing of each partition."""
        with self.admin() as client:
            return {
                one.partition: (
                    each["replicas"],
                    each["adding_replicas"],
                    each["removing_replicas"],
                )
                for one, each in client.list_partition_reassignments().items()
            }

    def partitions(self) -> dict[int, PartitionRegistration]:
        return self.cluster.image().topics.by_name[self.topic].partitions

    def partition(self) -> PartitionRegistration:
        """The first, or only one."""
        return self.partitions()[0]

    def replicas(self) -> list[tuple[int, ...]]:
        """The replicas of each partition."""
        return [tuple(state.replicas) for _, state in sorted(self.partitions().items())]

    def wait_completed(self, deadline_s: float = 60.0) -> None:
        wait_for(
            "the end of all reassignments",
            lambda: (
                not any(
                    state.adding_replicas or state.removing_replicas
                    for state in self.partitions().values()
                )
            ),
            deadline_s,
            last_seen=self.partitions,
        )

    @contextlib.contextmanager
    def traffic(self) -> Iterator[Load]:
        """A writer and a reader; afterwards nothing is missing, and disks and metadata agree."""
        with (
            Load(self.cluster.bootstrap, self.topic) as load,
            FollowingReader(self.cluster.bootstrap, self.topic, len(self.partitions())) as reader,
        ):
            yield load
            self.wait_for_writes(load)
            load.stop()
            wait_for(
                "everything read",
                lambda: sum(map(len, reader.seen.values())) >= len(load.acknowledged),
                last_seen=lambda: {index: len(seen) for index, seen in reader.seen.items()},
            )
        assert load.errors == []
        reader.assert_saw_everything_once(load.acknowledged)
        check(self.cluster, load)

    @contextlib.contextmanager
    def traffic_behind(self, mib: int) -> Iterator[Load]:
        """A writer alone, behind so much that was written before."""
        fill(self.cluster, self.topic, mib, len(self.partitions()))
        with Load(self.cluster.bootstrap, self.topic) as load:
            yield load
            self.wait_for_writes(load)
        assert load.errors == []
        check(self.cluster, load)

    def wait_for_writes(self, load: Load) -> None:
        """Wait until every partition has acknowledged something that comes after this moment."""
        moment = time.monotonic()
        wait_for(
            "acknowledgements of every partition",
            lambda: all(load.acknowledged_after(moment, each) for each in self.partitions()),
            60,
        )

    def stop(self, broker: int) -> None:
        """Stop a broker until the others know, so that no client turns to it."""
        assert self.cluster.node(broker).stop() == 0
        wait_for(
            "the broker fenced",
            lambda: self.cluster.image().cluster.brokers[BrokerId(broker)].fenced,
        )

    def throttle(self, broker: int, bytes_per_second: int | None) -> None:
        """Hold what a broker copies of the topic to a rate; None lets it go."""
        admin = client(self.cluster)
        rate = None if bytes_per_second is None else str(bytes_per_second)
        alter(admin, TOPIC, self.topic, follower_replication_throttled_replicas="*")
        alter(admin, BROKER, str(broker), follower_replication_throttled_rate=rate)

    def folders(self, broker: int) -> set[str]:
        """Names of all folders of the topic at a broker, those on their way out included."""
        return {
            path.name
            for log_dir in self.cluster.broker(broker).paths
            for path in log_dir.iterdir()
            if path.name.startswith(f"{self.topic}-")
        }

    def bytes_at(self, broker: int) -> dict[int, int]:
        """How much of each partition a broker has."""
        found = dict.fromkeys(self.partitions(), 0)
        for log_dir in self.cluster.broker(broker).log_dirs:
            for key, folder in log_dir.replicas().items():
                if key.topic == self.topic:
                    found[key.partition] = sum(each.stat().st_size for each in folder.glob("*.log"))
        return found


def test_partitions_get_other_brokers_and_leaders_under_load(stages: Stages) -> None:
    with reassigning(stages, [(1, 2), (2, 1), (1, 2)]) as topic:
        with topic.traffic():
            topic.reassign({0: (3, 4), 1: (4, 3), 2: (2, 4)})
            topic.wait_completed()

            assert topic.replicas() == [(3, 4), (4, 3), (2, 4)]
            assert topic.under_way() == {}
            assert topic.cluster.leaders(topic.topic)[0] in (3, 4)
        wait_for("the end of what is left at broker 1", lambda: topic.folders(1) == set())


def test_the_number_of_replicas_grows_and_shrinks_under_load(stages: Stages) -> None:
    with reassigning(stages, [(1,), (2,)]) as topic, topic.traffic():
        for wishes in (
            [(4, 3, 2, 1), (2, 3, 4)],
            [(2,), (3,)],
            [(1, 2), (4, 1)],
            # There and back: the name of the folder is free again.
            [(2,), (3, 1)],
        ):
            topic.reassign(dict(enumerate(wishes)))
            topic.wait_completed()
            assert topic.replicas() == wishes
            assert [set(state.isr) for _, state in sorted(topic.partitions().items())] == [
                set(each) for each in wishes
            ]


def test_source_and_target_are_killed_in_the_middle(stages: Stages) -> None:
    with reassigning(stages, [(1, 2)] * 4) as topic, topic.traffic_behind(16):
        topic.throttle(4, 2_000_000)
        topic.reassign(dict.fromkeys(range(4), (3, 4)))
        for broker in (3, 1):
            wait_for("a new replica", lambda: any(topic.bytes_at(4).values()))
            topic.cluster.node(broker).kill()
            topic.cluster.node(broker).start()
        topic.throttle(4, None)
        topic.cluster.wait_served()
        topic.wait_completed()
        assert topic.replicas() == [(3, 4)] * 4


def test_what_is_under_way_shows_in_a_clients_eyes(stages: Stages) -> None:
    with reassigning(stages, [(1, 2)]) as topic:
        topic.stop(4)
        topic.reassign({0: (4, 2)})

        def shown() -> object:
            told = topic.cluster.admin().list_topics(topic.topic, timeout=10).topics[topic.topic]
            return told.partitions[0].replicas, sorted(told.partitions[0].isrs)

        # The client may ask another broker than the one that has answered the request.
        wait_for("the reassignment", lambda: shown() == ([4, 2, 1], [1, 2]), last_seen=shown)
        with topic.admin() as client:
            refused = client.alter_partition_reassignments(
                {
                    KafkaTopicPartition(topic.topic, 0): [9],
                    KafkaTopicPartition(topic.topic, 5): [1],
                }
            )
            assert {one.partition: error.__name__ for one, error in refused.items()} == {
                0: "InvalidReplicationAssignmentError",
                5: "UnknownTopicOrPartitionError",
            }
            assert client.list_partition_reassignments({topic.topic: [1]}) == {}
