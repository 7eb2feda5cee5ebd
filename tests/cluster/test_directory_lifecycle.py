"""Directories that die, vanish, return, are swapped, added or removed, between the starts and while
everything runs. After each step: nothing acknowledged is lost, and the metadata names the directory
that holds the replica.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, Producer, TopicPartition

from jbodlab.directory_id import LOST
from jbodlab.log import meta_properties
from jbodlab.log.filesystem import PosixFileSystem
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    directory_id,
    read_all,
    running,
    wait_for,
)

pytestmark = pytest.mark.cluster

TOPIC = "orders"


class Records:
    """What was acknowledged so far."""

    def __init__(self, cluster: Cluster, topic: str = TOPIC, partitions: int = 4) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partitions = partitions
        self.sent = 0
        self.failed: list[str] = []

    def produce(self, count: int = 40) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        for number in range(self.sent, self.sent + count):
            producer.produce(
                self.topic,
                value=str(number),
                partition=number % self.partitions,
                on_delivery=lambda error, _: self.failed.append(str(error)) if error else None,
            )
        assert producer.flush(60) == 0
        self.sent += count
        assert not self.failed

    def assert_all_there(self) -> None:
        found = read_all(self.cluster.bootstrap, self.topic, self.partitions)
        values = sorted(int(value) for records in found.values() for _, value in records)
        assert values == list(range(self.sent))


def in_sync(cluster: Cluster, topic: str, *brokers: int) -> bool:
    return all(isr == set(brokers) for isr in cluster.isr(topic).values())


def wait_in_sync(cluster: Cluster, topic: str, *brokers: int) -> None:
    wait_for(f"ISR {brokers} of {topic}", lambda: in_sync(cluster, topic, *brokers))


def wait_consistent(cluster: Cluster, broker: int, topic: str = TOPIC) -> None:
    wait_for(
        f"the metadata naming the directories in which broker {broker} has {topic}",
        lambda: cluster.assigned(broker, topic) == cluster.on_disk(broker, topic),
        10,
    )


def restart(cluster: Cluster, broker: int) -> None:
    cluster.start_node(broker)
    cluster.wait_ready()


def replace_disk(cluster: Cluster, broker: int, path: Path) -> None:
    """A new empty disk, freshly formatted."""
    shutil.rmtree(path)
    path.mkdir()
    cluster.own(path)
    cluster.format(broker)


def test_directories_that_changed_while_the_broker_was_down(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2) as cluster:
        cluster.create_topic(TOPIC, 4, 2)
        records = Records(cluster)
        records.produce()
        one, two, three = cluster.log_dirs(2)
        wait_consistent(cluster, 2)

        # Foreign entries, and a directory that lost its id.
        assert cluster.stop_node(2) == 0
        for name in ("lost+found", ".Trash-1000", "backup-2024"):
            (one / name).mkdir()
            (one / name / "notes.txt").write_text("not ours")
        (one / "README").write_text("not ours")
        meta = meta_properties.read(PosixFileSystem(), two)
        lines = (two / "meta.properties").read_text().splitlines()
        kept = [line for line in lines if not line.startswith("directory.id")]
        (two / "meta.properties").write_text("\n".join(kept) + "\n")
        cluster.own(two)
        restart(cluster, 2)
        wait_in_sync(cluster, TOPIC, 1, 2)
        assert directory_id(two) != meta.directory_id
        wait_consistent(cluster, 2)
        for name in ("lost+found", ".Trash-1000", "backup-2024"):
            assert (one / name / "notes.txt").read_text() == "not ours"
        records.produce()

        # A replica moved by hand, and two mount points swapped.
        assert cluster.stop_node(2) == 0
        source = cluster.directory_of(2, TOPIC, 0)
        target = next(path for path in cluster.log_dirs(2) if path != source)
        (source / f"{TOPIC}-0").rename(target / f"{TOPIC}-0")
        swapped = one.with_name("swapped")
        one.rename(swapped)
        three.rename(one)
        swapped.rename(three)
        restart(cluster, 2)
        wait_in_sync(cluster, TOPIC, 1, 2)
        wait_consistent(cluster, 2)
        records.produce()

        # A directory at another path.
        assert cluster.stop_node(2) == 0
        elsewhere = three.with_name("elsewhere")
        three.rename(elsewhere)
        cluster.set_property(2, "log.dirs", f"{one},{two},{elsewhere}/")
        restart(cluster, 2)
        wait_in_sync(cluster, TOPIC, 1, 2)
        records.produce()
        records.assert_all_there()
        elsewhere.rename(three)


def test_directory_that_is_dead_at_the_start_and_returns(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2) as cluster:
        cluster.create_topic(TOPIC, 4, 2)
        records = Records(cluster)
        records.produce()
        assert cluster.stop_node(2) == 0
        dead = cluster.directory_of(2, TOPIC, 0)
        touched = cluster.partitions_in(dead, TOPIC)
        dead_id = directory_id(dead)
        dead.chmod(0)
        if os.access(dead, os.R_OK) and os.geteuid() != 0:
            pytest.skip("permission bits do not bite this user")
        restart(cluster, 2)

        # The others serve; it is not registered; nothing of it is made a second time.
        wait_for(
            "the healthy replicas in sync",
            lambda: all(
                isr == ({1} if p in touched else {1, 2}) for p, isr in cluster.isr(TOPIC).items()
            ),
        )
        registered = cluster.image().cluster.brokers[2].directories  # type: ignore[index]
        assert len(registered) == 2
        assert dead_id not in registered
        for path in cluster.log_dirs(2):
            if path != dead:
                assert not touched & cluster.partitions_in(path, TOPIC)
        records.produce()
        # A new topic of another name is created in what is left.
        cluster.create_topic("others", 2, 2)
        wait_in_sync(cluster, "others", 1, 2)

        assert cluster.stop_node(2) == 0
        dead.chmod(0o755)
        restart(cluster, 2)
        wait_in_sync(cluster, TOPIC, 1, 2)
        wait_consistent(cluster, 2)
        records.produce()
        records.assert_all_there()


def test_removed_directory_is_made_up_for_only_when_none_is_offline(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2) as cluster:
        cluster.create_topic(TOPIC, 4, 2)
        records = Records(cluster)
        records.produce()
        assert cluster.stop_node(2) == 0
        removed = cluster.directory_of(2, TOPIC, 0)
        touched = cluster.partitions_in(removed, TOPIC)
        kept = [path for path in cluster.log_dirs(2) if path != removed]
        cluster.set_property(2, "log.dirs", ",".join(map(str, kept)))
        meta = (kept[1] / "meta.properties").read_text()
        (kept[1] / "meta.properties").write_text("version=7\n")
        restart(cluster, 2)
        wait_for("replicas of the healthy directory", lambda: cluster.isr(TOPIC))
        assert not touched & cluster.partitions_in(kept[0], TOPIC)

        assert cluster.stop_node(2) == 0
        (kept[1] / "meta.properties").write_text(meta)
        restart(cluster, 2)
        wait_in_sync(cluster, TOPIC, 1, 2)
        here = cluster.partitions_in(kept[0], TOPIC) | cluster.partitions_in(kept[1], TOPIC)
        assert touched <= here
        ids = {directory_id(path) for path in kept}
        assert set(cluster.assigned(2, TOPIC).values()) <= ids
        records.produce()
        records.assert_all_there()


def test_empty_replacement_disk_never_leads_before_it_caught_up(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2, dirs=2) as cluster:
        cluster.create_topic(TOPIC, 4, 2)
        records = Records(cluster)
        records.produce()
        disk = cluster.directory_of(1, TOPIC, 0)
        touched = cluster.partitions_in(disk, TOPIC)

        # Both are in sync: killed, replaced and back before anybody noticed.
        cluster.kill(1)
        replace_disk(cluster, 1, disk)
        restart(cluster, 1)
        wait_in_sync(cluster, TOPIC, 1, 2)
        wait_consistent(cluster, 1)
        records.assert_all_there()

        # Broker 1 is the last one in sync, and loses a disk with all that only it had.
        touched = cluster.partitions_in(disk, TOPIC)
        assert touched
        assert cluster.stop_node(2) == 0
        wait_in_sync(cluster, TOPIC, 1)
        assert cluster.stop_node(1) == 0
        replace_disk(cluster, 1, disk)
        cluster.start_node(1)
        cluster.start_node(2)
        cluster.wait_ready()
        others = set(range(4)) - touched
        wait_for(
            "leaders of what was not lost",
            lambda: all(cluster.leaders(TOPIC)[p] > 0 for p in others),
        )
        leaders = cluster.leaders(TOPIC)
        assert {leaders[p] for p in touched} == {-1}, "an empty log must not lead"
        assigned = cluster.assigned(1, TOPIC)
        assert {assigned[p] for p in touched} == {LOST}

        # The operator lets broker 2 lead, which has all there was when it left.
        wanted = [TopicPartition(TOPIC, p) for p in touched]
        cluster.admin().elect_leaders(ElectionType.UNCLEAN, wanted).result(30)
        wait_in_sync(cluster, TOPIC, 1, 2)
        wait_consistent(cluster, 1)
        records.assert_all_there()


def test_replica_removed_by_hand_costs_no_directory(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2, dirs=1) as cluster:
        cluster.create_topic(TOPIC, 4, 2)
        cluster.create_topic("doomed", 1, 2)
        records = Records(cluster)
        records.produce()
        leader = cluster.leaders(TOPIC)[0]
        other = 3 - leader
        (directory,) = cluster.log_dirs(leader)
        shutil.rmtree(directory / f"{TOPIC}-0")
        shutil.rmtree(directory / "doomed-0")
        wait_for("the other broker leading", lambda: cluster.leaders(TOPIC)[0] == other)
        assert all(leader in cluster.isr(TOPIC)[p] for p in (1, 2, 3))
        records.produce()
        # Deleting what is gone already is no failure either.
        for future in cluster.admin().delete_topics(["doomed"]).values():
            future.result(30)
        assert "went offline" not in cluster.output(leader)

        assert cluster.stop_node(leader) == 0
        restart(cluster, leader)
        wait_in_sync(cluster, TOPIC, 1, 2)
        wait_consistent(cluster, leader)
        records.assert_all_there()


def test_one_directory_becomes_many_on_a_cluster_with_data(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2, dirs=1) as cluster:
        cluster.create_topic(TOPIC, 4, 2)
        records = Records(cluster)
        records.produce()
        for broker in cluster.brokers:
            assert cluster.stop_node(broker) == 0
        cluster.dirs = 3
        for broker in cluster.brokers:
            for path in cluster.log_dirs(broker)[1:]:
                path.mkdir(parents=True)
            cluster.own(cluster.home(broker))
            cluster.set_property(broker, "log.dirs", ",".join(map(str, cluster.log_dirs(broker))))
            cluster.format(broker)
            cluster.start_node(broker)
        cluster.wait_ready()
        wait_in_sync(cluster, TOPIC, 1, 2)
        wait_consistent(cluster, 1)
        cluster.create_topic("spread", 6, 2)
        wait_in_sync(cluster, "spread", 1, 2)
        wait_consistent(cluster, 1, "spread")
        assert len(set(cluster.on_disk(1, "spread").values())) > 1
        records.produce()
        records.assert_all_there()


def test_topic_made_anew_while_its_old_directory_was_away(cluster_root: Path) -> None:
    # Any client that still asks for the topic would make it anew.
    settings = {"auto.create.topics.enable": "false"}
    with running(cluster_root, brokers=2, settings=settings) as cluster:
        cluster.create_topic(TOPIC, 4, 2)
        Records(cluster).produce()
        assert cluster.stop_node(2) == 0
        for future in cluster.admin().delete_topics([TOPIC]).values():
            future.result(30)
        wait_for("the topic gone", lambda: TOPIC not in cluster.image().topics.by_name)
        restart(cluster, 2)
        strays = [
            entry
            for path in cluster.log_dirs(2)
            for entry in path.iterdir()
            if entry.name.endswith("-stray")
        ]
        assert len(strays) == 4, "strays are kept"
        cluster.create_topic(TOPIC, 4, 2)
        records = Records(cluster)
        records.produce()
        wait_in_sync(cluster, TOPIC, 1, 2)
        wait_consistent(cluster, 2)
        records.assert_all_there()

        # The same partition twice, as a swap of directories may leave it: the one that the metadata
        # want is used, as nothing is in the other that it has not.
        assert cluster.stop_node(2) == 0
        holder = cluster.directory_of(2, TOPIC, 0)
        second = next(path for path in cluster.log_dirs(2) if path != holder)
        shutil.copytree(holder / f"{TOPIC}-0", second / f"{TOPIC}-0")
        cluster.own(second)
        cluster.start_node(2)
        cluster.wait_ready()
        wait_in_sync(cluster, TOPIC, 1, 2)
        wait_consistent(cluster, 2)
        assert cluster.directory_of(2, TOPIC, 0) == holder
        records.assert_all_there()


def test_starts_that_end_with_one_line(cluster_root: Path) -> None:
    cluster = Cluster(cluster_root, brokers=1)
    one, two, three = cluster.log_dirs(1)
    link = one.parent / "link"
    link.symlink_to(one)
    cases = {
        f"{one},{two},{one}/": "Duplicate log directory found",
        f"{one},{two},{link}": "Duplicate log directory found",
        f"{one},{one.parent}/none": "No `meta.properties` found in",
    }
    for log_dirs, text in cases.items():
        cluster.set_property(1, "log.dirs", log_dirs)
        code, line = cluster.run_to_end(1)
        assert (code, text in line) == (1, True), line
    cluster.set_property(1, "log.dirs", f"{one},{two},{three}")
    metadata = cluster.metadata_dir(1) / "meta.properties"
    good = metadata.read_text()
    metadata.write_text("version=7\n")
    code, line = cluster.run_to_end(1)
    assert code == 1
    assert "Encountered I/O error in metadata log directory" in line
    metadata.write_text(good)
    for path in (one, two, three):
        (path / "meta.properties").write_text("version=7\n")
    code, line = cluster.run_to_end(1)
    assert code == 1
    assert "none of the specified log dirs" in line


def test_leader_that_cannot_tell_of_its_dead_directory_stops(cluster_root: Path) -> None:
    settings = {"log.dir.failure.timeout.ms": "2000"}
    with running(cluster_root, brokers=2, settings=settings) as cluster:
        cluster.create_topic(TOPIC, 4, 2)
        wait_consistent(cluster, 1)
        wait_consistent(cluster, 2)
        cluster.kill(CONTROLLER_ID)
        leader = cluster.leaders(TOPIC)[0]
        cluster.inject("delete", cluster.directory_of(leader, TOPIC, 0))
        assert cluster.processes[leader].wait(30) == 1
        lines = [line for line in cluster.output(leader).splitlines() if line.strip()]
        assert "couldn't communicate offline log dir" in lines[-1]
        assert cluster.processes[3 - leader].poll() is None


@pytest.mark.parametrize("kind", ["chmod000", "delete"])
def test_controller_without_its_directory_stops(kind: str, cluster_root: Path) -> None:
    with running(cluster_root, brokers=1, dirs=1) as cluster:
        cluster.inject(kind, cluster.metadata_dir(CONTROLLER_ID))
        assert cluster.processes[CONTROLLER_ID].wait(30) == 1
        lines = [line for line in cluster.output(CONTROLLER_ID).splitlines() if line.strip()]
        assert str(cluster.metadata_dir(CONTROLLER_ID)) in lines[-1]
        assert "Traceback" not in cluster.output(CONTROLLER_ID)
        assert cluster.processes[1].poll() is None
        cluster.signal(1, signal.SIGKILL)
