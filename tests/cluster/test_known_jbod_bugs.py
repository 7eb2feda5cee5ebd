"""Bugs of directories in Apache Kafka, by their numbers, replayed against this cluster.

Each test says what went wrong there and what must happen here. At its end everything is healed, and
metadata, disks and answers to clients agree.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions

from jbodlab.directory_id import UNASSIGNED
from jbodlab.ids import BrokerId
from jbodlab.log import names
from tests.cluster.harness import (
    BIN,
    CONTROLLER_ID,
    Cluster,
    Load,
    as_server_user,
    free_ports,
    wait_for,
)
from tests.cluster.invariants import Ledger, answers, is_running, metadata, settle
from tests.cluster.scenes import SETTINGS, Scene, Stage, some, steadily

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


def queued_assignments(port: int) -> float:
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=5) as answer:
        for line in answer.read().decode().splitlines():
            if "QueuedReplicaToDirAssignments" in line and not line.startswith("#"):
                return float(line.rpartition(" ")[2])
    raise AssertionError("no such metric")


# Creating and creating again


def test_topic_recreated_while_a_directory_is_offline_is_created_kafka_16157(stage: Stage) -> None:
    """There the broker took the new topic for the old one in its dead directory and never created
    it; here every replica of the new topic is created, in sync, and not mixed with the old one.
    """
    with stage.scene() as scene:
        old = scene.topic(6)
        leader, path = scene.leader(old)
        scene.break_and_wait("chmod000", leader, path)
        scene.delete(old.topic)
        scene.create(old.topic, 6, 3, min_insync_replicas="3")
        new = Ledger(scene.cluster, old.topic, 6)
        new.produce()
        scene.check(new)
        there = [
            scene.cluster.partitions_in(other, new.topic)
            for other in scene.cluster.log_dirs(leader)
            if other != path
        ]
        assert set().union(*there) == set(range(6))


def test_replicas_of_a_dead_directory_are_not_made_again_elsewhere_kafka_16234(
    stage: Stage,
) -> None:
    """There a broker whose directory failed made its replicas anew in another directory; here
    neither the running broker nor the one that is restarted does, whatever the metadata do.
    """
    with stage.scene() as scene:
        ledger = scene.topic(6, min_insync_replicas="1")
        broker, path = scene.follower(ledger)
        lost = scene.cluster.partitions_in(path, ledger.topic)
        scene.break_and_wait("chmod000", broker, path)

        def made_again() -> bool:
            return any(
                lost & scene.cluster.partitions_in(other, ledger.topic)
                for other in scene.cluster.log_dirs(broker)
                if other != path
            )

        # New epochs of the partitions reach the broker: their leaders come and go.
        bounced = next(b for b in scene.cluster.brokers if b != broker)
        scene.restart(bounced)
        scene.bounce_controller(kill=True)
        ledger.produce()
        steadily("not made again", lambda: not made_again())
        scene.restart(broker)
        ledger.produce()
        steadily("not made again", lambda: not made_again())
        scene.check(ledger)


def test_new_replicas_go_to_directories_that_work_kafka_8526(stage: Stage) -> None:
    """There a replica could be given to a directory that had just died, and was never created; here
    the next best directory takes it.
    """
    with stage.scene() as scene:
        path = scene.cluster.log_dirs(1)[0]
        names_ = [f"next-best-{number}" for number in range(4)]
        scene.faults.make("chmod000", path)
        scene.new_topics(names_, 6)
        scene.wait_offline(1, path)
        settle(scene.cluster)
        image = metadata(scene.cluster)
        for name in names_:
            for index, state in image.topics.by_name[name].partitions.items():
                assert 1 in state.isr, f"{name}-{index} was not created on broker 1"


def test_replicas_can_be_added_to_a_broker_with_a_dead_directory_kafka_10314(stage: Stage) -> None:
    """There a broker with an offline directory refused to create replicas of existing topics; here
    new partitions of an existing topic are created in what is left.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4)
        leader, path = scene.leader(ledger)
        scene.break_and_wait("delete", leader, path)
        more = scene.cluster.admin().create_partitions([NewPartitions(ledger.topic, 8)])
        more[ledger.topic].result(30)
        wait_for("8 partitions", lambda: len(scene.cluster.leaders(ledger.topic)) == 8)
        settle(scene.cluster)
        states = metadata(scene.cluster).topics.by_name[ledger.topic].partitions
        assert all(leader in states[index].isr for index in range(4, 8))


def test_topic_recreated_while_its_broker_is_down_is_replicated_kafka_14616(stage: Stage) -> None:
    """There the returning broker kept the old topic's log under the new topic's name, and never
    came in sync; here the old one is put aside.
    """
    with stage.scene() as scene:
        old = scene.topic(6, min_insync_replicas="1")
        scene.cluster.kill(2)
        scene.delete(old.topic)
        scene.new_topics([old.topic], 6, 3)
        new = Ledger(scene.cluster, old.topic, 6)
        new.produce(60)
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(new)
        strays = [
            entry
            for path in scene.cluster.log_dirs(2)
            for entry in path.iterdir()
            if entry.name.startswith(f"{old.topic}-") and entry.name.endswith("-stray")
        ]
        assert len(strays) == 6


def test_replica_of_an_unreported_directory_is_not_made_twice_kafka_15650(stage: Stage) -> None:
    """There a broker could die together with the disk of a replica whose directory the controller
    did not know yet, and make it anew elsewhere, empty and leading; here it waits for that disk.
    """
    with stage.scene() as scene:
        cluster = scene.cluster
        for attempt in range(8):
            name = f"unreported-{attempt}"
            hosts = unreported_replicas(scene, name)
            if hosts:
                break
            cluster.start_node(CONTROLLER_ID)
        assert hosts, "the controller always knew all directories"
        ledger = Ledger(cluster, name, 60, idempotent=False)
        ledger.produce(120)
        (broker, partition), path = next(iter(hosts.items()))
        cluster.kill(broker)
        scene.faults.make("chmod000", path)
        cluster.start_node(CONTROLLER_ID)
        scene.start(broker)
        scene.wait_offline(broker, path)
        settle(cluster)
        for other in cluster.log_dirs(broker):
            if other != path:
                assert partition not in cluster.partitions_in(other, name), "made a second time"
        assert cluster.leaders(name)[partition] == -1
        scene.faults.heal(path)
        scene.restart(broker)
        scene.wait_all_in_sync()
        scene.check(ledger)


@pytest.mark.parametrize("partitions", [2, pytest.param(60, marks=pytest.mark.soak)])
def test_topic_made_deleted_and_made_again_at_once(partitions: int, stage: Stage) -> None:
    """A replica in creation meets the next one of its name; each gets its turn."""
    with stage.scene() as scene:
        name = f"again-{partitions}"
        for _ in range(4):
            scene.new_topics([name], partitions)
            for future in scene.cluster.admin().delete_topics([name]).values():
                future.result(30)
        scene.new_topics([name], partitions)
        settle(scene.cluster)
        scene.wait_all_in_sync()
        ledger = Ledger(scene.cluster, name, partitions)
        ledger.produce(2 * partitions)
        scene.check(ledger)


def unreported_replicas(scene: Scene, name: str) -> dict[tuple[int, int], Path]:
    """Create a topic and kill the controller within the time for which reports are gathered.

    Returns:
        Of each replica that has a log, and whose directory the controller does not know: broker and
        partition to the directory.
    """
    cluster = scene.cluster
    scene.new_topics([name], 60, 1)
    for broker in cluster.brokers:
        wait_for("the topic known", lambda broker=broker: knows(cluster, broker, name))
    cluster.kill(CONTROLLER_ID)
    states = metadata(cluster).topics.by_name[name].partitions
    return {
        (broker, index): path
        for broker in cluster.brokers
        for path in cluster.log_dirs(broker)
        for index in cluster.partitions_in(path, name)
        if states[index].directory(BrokerId(broker)) == UNASSIGNED
    }


def knows(cluster: Cluster, broker: int, name: str) -> bool:
    return any(key.topic == name for key in answers(cluster, broker) or ())


# What takes a directory offline, and what does not


@pytest.mark.parametrize("when", ["while rolling", "after rolling"])
def test_deleting_a_topic_under_load_costs_no_directory_kafka_15391(
    when: str, stage: Stage
) -> None:
    """There the flush of a rolled segment met a directory that a deletion had renamed, and took the
    log directory offline (KAFKA-13403 and KAFKA-19571 alike); here nothing fails.
    """
    with stage.scene() as scene:
        kept = scene.topic(4)
        for _ in range(3):
            doomed = scene.topic(
                4, records=0, segment_bytes="70000", retention_ms="1", file_delete_delay_ms="1"
            )
            if when == "while rolling":
                doomed.send(2000, size=500)
            else:
                doomed.produce(1000, size=500)
            scene.delete(doomed.topic)
        kept.produce()
        scene.check(kept)
        for broker in scene.cluster.brokers:
            assert "went offline" not in scene.said(broker)


def test_retention_and_restart_cost_no_directory_kafka_13315(stage: Stage) -> None:
    """There retention met files that the shutdown had closed, and the directory was taken for dead
    and not cleanly closed; here every directory ends clean.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, segment_bytes="70000", retention_bytes="1", records=0)
        ledger.send(4000, size=300)
        time.sleep(1)
        assert scene.cluster.stop_node(2) == 0
        assert "went offline" not in scene.said(2)
        for path in scene.cluster.log_dirs(2):
            assert (path / names.CLEAN_SHUTDOWN_FILE).exists()
        ledger.finish()
        scene.start(2)
        scene.wait_all_in_sync()


def test_follower_of_a_dead_directory_goes_on_following_in_others_kafka_5864(stage: Stage) -> None:
    """There the fetcher thread died with the first replica in a dead directory, and all others of
    that leader fell behind; here they stay in sync.
    """
    with stage.scene() as scene:
        ledger = scene.topic(12, min_insync_replicas="2")
        follower, path = scene.follower(ledger)
        lost = scene.cluster.partitions_in(path, ledger.topic)
        assert lost != set(range(12))
        scene.break_and_wait("chmod000", follower, path)
        ledger.produce(120)
        scene.check(ledger)
        states = metadata(scene.cluster).topics.by_name[ledger.topic].partitions
        for index, state in states.items():
            assert (follower in state.isr) == (index not in lost)


def test_leader_in_a_dead_directory_does_not_shrink_the_isr_kafka_7837(stage: Stage) -> None:
    """There a leader whose directory had failed threw its followers out of the ISR, and could leave
    nobody; here the others take over, all of them.
    """
    with stage.scene() as scene:
        ledger = scene.topic(6, min_insync_replicas="2")
        leader, path = scene.leader(ledger)
        lost = scene.cluster.partitions_in(path, ledger.topic)
        scene.break_and_wait("chmod000", leader, path)
        others = {broker for broker in scene.cluster.brokers if broker != leader}
        steadily(
            "both others in sync",
            lambda: all(scene.cluster.isr(ledger.topic)[p] == others for p in lost),
        )
        ledger.produce()
        scene.check(ledger)


def test_metadata_directory_apart_does_not_fall_with_the_first_kafka_16195(stage: Stage) -> None:
    """There the failure of the first directory stopped the broker although the metadata were
    elsewhere; here it is a directory like any other.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        first = scene.cluster.log_dirs(2)[0]
        scene.break_and_wait("chmod000", 2, first)
        ledger.produce()
        scene.check(ledger)
        assert is_running(scene.cluster, 2)


def test_fetch_from_a_dead_directory_is_answered_kafka_6027(stage: Stage) -> None:
    """There a request that met a closed log ended its thread with a null pointer; here consumers go
    on at the new leader, and nothing but a storage error is heard of the old one.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4, min_insync_replicas="1", records=0)
        with Load(scene.cluster.bootstrap, ledger.topic, rate=400) as load:
            for kind in ("chmod000", "delete"):
                leader, path = scene.leader(ledger)
                scene.break_and_wait(kind, leader, path)
                settle(scene.cluster)
        assert not load.errors
        scene.check(load)


# Starting


def test_directory_whose_path_leads_nowhere_does_not_stop_the_start_kafka_6697(
    stage: Stage,
) -> None:
    """There a path that could not be resolved ended the whole broker; here the others serve."""
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.log_dirs(2)[1]
        assert scene.cluster.stop_node(2) == 0
        scene.faults.make("loop", path)
        scene.start(2)
        scene.wait_offline(2, path)
        ledger.produce()
        scene.check(ledger)


def test_directory_that_cannot_be_locked_does_not_stop_the_start_kafka_17310(
    stage: Stage,
) -> None:
    """There locking a directory that had gone offline a moment before ended the broker; here it
    starts with the others.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.log_dirs(2)[0]
        assert scene.cluster.stop_node(2) == 0
        # What is there is only read; `.lock` cannot be made.
        scene.faults.make("readonly", path)
        scene.start(2)
        scene.wait_offline(2, path)
        ledger.produce()
        scene.check(ledger)


def test_replica_without_partition_metadata_does_not_stop_the_start_kafka_16814(
    stage: Stage,
) -> None:
    """There a missing `partition.metadata` ended the start; here that log is put aside and the
    replica is fetched anew.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4, min_insync_replicas="1")
        scene.cluster.kill(2)
        path = scene.cluster.directory_of(2, ledger.topic, 0)
        (path / f"{ledger.topic}-0" / names.PARTITION_METADATA_FILE).unlink()
        ledger.produce()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_crash_while_logs_are_loaded_counts_as_a_crash_kafka_10471(stage: Stage) -> None:
    """There the marker of a clean end outlived a crash during the start, and the next start trusted
    logs that were not whole; here the marker is gone before the first log is opened.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        assert scene.cluster.stop_node(2) == 0
        markers = [path / names.CLEAN_SHUTDOWN_FILE for path in scene.cluster.log_dirs(2)]
        assert all(marker.exists() for marker in markers)
        scene.cluster.start_node(2)
        wait_for("the first marker gone", lambda: not all(m.exists() for m in markers))
        scene.cluster.kill(2)
        ledger.produce()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_start_that_fails_leaves_no_marker_of_a_clean_end_kafka_15375(stage: Stage) -> None:
    """There a broker that was stopped before its logs were loaded marked its directories as cleanly
    shut down; here what crashed stays marked so.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        scene.cluster.kill(2)
        # Without a controller it never comes to load its logs.
        scene.cluster.kill(CONTROLLER_ID)
        scene.cluster.start_node(2)
        wait_for("it starts", lambda: "STARTING" in scene.said(2))
        time.sleep(0.5)
        assert scene.cluster.stop_node(2) == 0
        for path in scene.cluster.log_dirs(2):
            assert not (path / names.CLEAN_SHUTDOWN_FILE).exists()
        scene.cluster.start_node(CONTROLLER_ID)
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_log_that_cannot_be_closed_leaves_no_marker_kafka_19221(stage: Stage) -> None:
    """There an I/O error on closing a segment was swallowed and the directory marked as clean; here
    the next start recovers it.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.directory_of(2, ledger.topic, 0)
        folder = path / f"{ledger.topic}-0"
        folder.chmod(0o555)
        try:
            assert scene.cluster.stop_node(2) == 0
        finally:
            folder.chmod(0o755)
        assert not (path / names.CLEAN_SHUTDOWN_FILE).exists()
        others = [other for other in scene.cluster.log_dirs(2) if other != path]
        assert all((other / names.CLEAN_SHUTDOWN_FILE).exists() for other in others)
        ledger.produce()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_directory_that_fails_while_it_is_loaded_leaves_no_marker_kafka_13773(stage: Stage) -> None:
    """There an I/O error during recovery stopped the broker, which then marked the directory as
    clean; here the broker serves with the others, and the marker does not come back.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.directory_of(2, ledger.topic, 0)
        scene.cluster.kill(2)
        folder = path / f"{ledger.topic}-0"
        (folder / "leader-epoch-checkpoint").unlink()
        folder.chmod(0o555)
        try:
            scene.start(2)
            scene.wait_offline(2, path)
            ledger.produce()
            scene.check(ledger)
            assert scene.cluster.stop_node(2) == 0
            assert not (path / names.CLEAN_SHUTDOWN_FILE).exists()
        finally:
            folder.chmod(0o755)
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_checkpoint_that_cannot_be_written_blames_its_directory_kafka_15490(stage: Stage) -> None:
    """There the failure named the checkpoint's own path, which is no directory, and nothing went
    offline; here it is the directory that holds it.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4, min_insync_replicas="1")
        broker, path = scene.leader(ledger)
        file = path / names.RECOVERY_POINT_FILE
        wait_for("the file", file.exists)
        file.unlink()
        (file / "in-the-way").mkdir(parents=True)
        try:
            ledger.produce(400, size=100)
            scene.topic(4)
            scene.wait_offline(broker, path)
            scene.check(ledger)
        finally:
            shutil.rmtree(file)


# Copies that a move between directories left behind


def test_copy_that_is_all_there_is_becomes_the_replica_kafka_16082(stage: Stage) -> None:
    """There a copy could be left beside a new, empty replica, which led and lost all records; here
    a copy in the directory that the metadata name becomes the replica.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4, 1)
        leader, path = scene.leader(ledger)
        assert scene.cluster.stop_node(leader) == 0
        folder = path / f"{ledger.topic}-0"
        folder.rename(folder.with_name(f"{folder.name}.{'0' * 32}-future"))
        scene.start(leader)
        scene.check(ledger)
        assert folder.is_dir()


@pytest.mark.parametrize("named", some(["the log", "the copy"], "the copy"))
def test_copy_beside_the_whole_log_does_not_replace_it_kafka_16297(
    named: str, stage: Stage
) -> None:
    """There the copy took over after a crash although the log had grown since (KAFKA-9087 and
    KAFKA-16365 alike); here the whole log is the replica until the copy has all of it.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4, 1)
        leader, path = scene.leader(ledger)
        other = next(each for each in scene.cluster.log_dirs(leader) if each != path)
        scene.cluster.kill(leader)
        folder = path / f"{ledger.topic}-0"
        copied, kept = (other, path) if named == "the log" else (path, other)
        if kept is other:
            folder.rename(other / folder.name)
        future = copied / f"{folder.name}.{'0' * 32}-future"
        shutil.copytree(kept / folder.name, future)
        for log in future.glob("*.log"):
            log.write_bytes(b"")
        scene.cluster.own(future)
        scene.start(leader)
        scene.check(ledger)


# Telling the controller


def test_broker_without_leaders_in_the_dead_directory_does_not_stop_kafka_15649(
    cluster_root: Path,
) -> None:
    """There a broker stopped when it could not tell the controller in time, even if it led nothing
    in that directory; here only who leads something stops, and each failure has its own timer.
    """
    settings = {**SETTINGS, "log.dir.failure.timeout.ms": "2000"}
    cluster = Cluster(cluster_root, brokers=2, dirs=3, settings=settings)
    try:
        cluster.start()
        scene = Scene(cluster)
        ledger = scene.topic(1, 2)
        leader, path = scene.leader(ledger)
        empty = [each for each in cluster.log_dirs(leader) if each != path]
        cluster.kill(CONTROLLER_ID)
        scene.faults.make("chmod000", empty[0])
        wait_for("it noticed", lambda: "went offline" in scene.said(leader))
        steadily("it goes on", lambda: is_running(cluster, leader), 4.0)
        # The second failure is of the directory in which it leads; a third one does not hide it.
        scene.faults.make("chmod000", path)
        assert cluster.processes[leader].wait(20) == 1
        assert is_running(cluster, 3 - leader)
    finally:
        for path in cluster.root.rglob("data"):
            path.chmod(0o755)
        cluster.stop()


def test_assignments_of_deleted_topics_are_dropped_kafka_17190(cluster_root: Path) -> None:
    """There the queue of assignments went round for ever with topics that had been deleted; here it
    is empty soon (KAFKA-16886, replicas that were moved away, alike).
    """
    cluster = Cluster(cluster_root, brokers=2, dirs=3, settings=SETTINGS)
    ports = free_ports(2)
    for broker, port in zip(cluster.brokers, ports, strict=True):
        cluster.set_property(broker, "jbodlab.metrics.port", str(port))
    try:
        cluster.start()
        scene = Scene(cluster)
        for number in range(5):
            name = f"short-lived-{number}"
            scene.new_topics([name], 20, 2)
            scene.delete(name)
        last = scene.topic(6, 2)
        wait_for("empty queues", lambda: all(queued_assignments(port) == 0 for port in ports), 10)
        scene.check(last)
    finally:
        cluster.stop()


def test_failure_is_known_to_every_later_controller(stage: Stage) -> None:
    """There a failure that was reported once could be forgotten with that controller (KAFKA-15451);
    here each heartbeat carries all failed directories.
    """
    with stage.scene() as scene:
        ledger = scene.topic(6, min_insync_replicas="1")
        leader, path = scene.leader(ledger)
        scene.cluster.kill(CONTROLLER_ID)
        scene.faults.make("file", path)
        wait_for("it noticed", lambda: "went offline" in scene.said(leader))
        scene.cluster.start_node(CONTROLLER_ID)
        scene.wait_offline(leader, path)
        scene.bounce_controller(kill=True)
        ledger.produce()
        scene.check(ledger)


# Metadata versions


def test_topics_work_with_the_oldest_version_that_knows_directories_kafka_16162(
    cluster_root: Path,
) -> None:
    """There new topics had no leader, because brokers had registered no directories (KAFKA-16606:
    and nothing said that several directories need a newer version); here an older version is
    refused, and the oldest that knows directories serves.
    """
    cluster = Cluster(cluster_root, brokers=2, dirs=3, settings=SETTINGS)
    meta = cluster.metadata_dir(CONTROLLER_ID)
    shutil.rmtree(meta)
    meta.mkdir()
    cluster.own(meta)
    refused = format_controller(cluster, "3.6")
    assert refused.returncode == 1
    assert "too old" in refused.stderr
    assert format_controller(cluster, "3.7-IV2").returncode == 0
    try:
        cluster.start()
        scene = Scene(cluster)
        ledger = scene.topic(6, 2, min_insync_replicas="1")
        scene.check(ledger)
        leader, path = scene.leader(ledger)
        scene.break_and_wait("chmod000", leader, path)
        ledger.produce()
        scene.check(ledger)
    finally:
        cluster.stop()


def format_controller(cluster: Cluster, release: str) -> subprocess.CompletedProcess[str]:
    """Format the controller for an older release."""
    arguments = ["format", "-t", cluster.cluster_id, "-r", release]
    command = [str(BIN / "jbod-storage"), *arguments, "-c", str(cluster.properties(CONTROLLER_ID))]
    return subprocess.run(
        as_server_user(command), check=False, capture_output=True, text=True, cwd="/", timeout=60
    )
