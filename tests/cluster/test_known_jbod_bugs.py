"""Bugs of directories in Apache Kafka, by their numbers, replayed against this cluster.

Each test says what went wrong there and what must happen here. At its end everything is healed, and
metadata, disks and answers to clients agree.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions

from jbodlab.storage.directory import names
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.ids import BrokerId
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    Load,
    partitions_in,
    wait_for,
)
from tests.cluster.invariants import Ledger, answers, settle
from tests.cluster.lab_cluster import set_property
from tests.cluster.scenes import Scene, Stage

pytestmark = pytest.mark.cluster


FAILURE_TIMEOUT = "log.dir.failure.timeout.ms"
BROKER_STATE = "kafka_server_KafkaServer_BrokerState"
RUNNING = 3
QUEUED = "kafka_server_AssignmentsManager_QueuedReplicaToDirAssignments"


def queued_assignments(scene: Scene, broker: int) -> float:
    ((_, value),) = scene.metric(broker, QUEUED)
    return value


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
            partitions_in(other, new.topic)
            for other in scene.cluster.broker(leader).paths
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
        lost = partitions_in(path, ledger.topic)
        scene.break_and_wait("chmod000", broker, path)

        def made_again() -> bool:
            return any(
                lost & partitions_in(other, ledger.topic)
                for other in scene.cluster.broker(broker).paths
                if other != path
            )

        # New epochs of the partitions reach the broker: their leaders come and go.
        bounced = next(b for b in scene.cluster.broker_ids if b != broker)
        scene.restart(bounced)
        scene.bounce_controller(kill=True)
        ledger.produce()
        scene.let_all_act()
        assert not made_again()
        scene.restart(broker)
        ledger.produce()
        scene.let_all_act()
        assert not made_again()
        scene.check(ledger)


def test_new_replicas_go_to_directories_that_work_kafka_8526(stage: Stage) -> None:
    """There a replica could be given to a directory that had just died, and was never created; here
    the next best directory takes it.
    """
    with stage.scene() as scene:
        path = scene.cluster.broker(1).paths[0]
        names_ = [f"next-best-{number}" for number in range(4)]
        scene.faults.make("chmod000", path)
        scene.new_topics(names_, 6)
        scene.wait_offline(1, path)
        settle(scene.cluster)
        image = scene.cluster.image()
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
        states = scene.cluster.image().topics.by_name[ledger.topic].partitions
        assert all(leader in states[index].isr for index in range(4, 8))
        ledger.produce()
        scene.check(ledger)


def test_topic_recreated_while_its_broker_is_down_is_replicated_kafka_14616(stage: Stage) -> None:
    """There the returning broker kept the old topic's log under the new topic's name, and never
    came in sync; here the old one is put aside, as is what belongs to no topic any more.
    """
    with stage.scene() as scene:
        old, gone = scene.topic(6, min_insync_replicas="1"), scene.topic(4)
        scene.cluster.node(2).kill()
        scene.delete(old.topic, gone.topic)
        scene.new_topics([old.topic], 6, 3)
        new = Ledger(scene.cluster, old.topic, 6)
        new.produce(60)
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(new)
        strays = [
            entry.name.rpartition("-")[0].rpartition("-")[0]
            for path in scene.cluster.broker(2).paths
            for entry in path.iterdir()
            if entry.name.endswith("-stray")
        ]
        assert (strays.count(old.topic), strays.count(gone.topic)) == (6, 4)


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
            cluster.node(CONTROLLER_ID).start()
        assert hosts, "the controller always knew all directories"
        ledger = Ledger(cluster, name, 60, idempotent=False)
        ledger.produce(120)
        (broker, partition), path = next(iter(hosts.items()))
        cluster.node(broker).kill()
        scene.faults.make("chmod000", path)
        cluster.node(CONTROLLER_ID).start()
        scene.start(broker)
        scene.wait_offline(broker, path)
        settle(cluster)
        for other in cluster.broker(broker).paths:
            if other != path:
                assert partition not in partitions_in(other, name), "made a second time"
        assert cluster.leaders(name)[partition] == -1
        scene.make_whole()
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
    for broker in cluster.broker_ids:
        wait_for("the topic known", lambda broker=broker: knows(cluster, broker, name))
    cluster.node(CONTROLLER_ID).kill()
    states = cluster.image().topics.by_name[name].partitions
    return {
        (broker, index): path
        for broker in cluster.broker_ids
        for path in cluster.broker(broker).paths
        for index in partitions_in(path, name)
        if states[index].directory(BrokerId(broker)) == UNASSIGNED
    }


def knows(cluster: Cluster, broker: int, name: str) -> bool:
    return any(key.topic == name for told in answers(cluster, broker) for key in told or ())


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
                4,
                records=0,
                internal_segment_bytes="70000",
                retention_ms="1",
                file_delete_delay_ms="1",
            )
            if when == "while rolling":
                doomed.send(2000, size=500)
            else:
                doomed.produce(1000, size=500)
            scene.delete(doomed.topic)
        kept.produce()
        scene.check(kept)
        for broker in scene.cluster.broker_ids:
            assert "went offline" not in scene.said(broker)


def test_retention_and_restart_cost_no_directory_kafka_13315(stage: Stage) -> None:
    """There retention met files that the shutdown had closed, and the directory was taken for dead
    and not cleanly closed; here every directory ends clean.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, internal_segment_bytes="70000", retention_bytes="1", records=0)
        ledger.send(4000, size=300)
        folders = [
            path for each in scene.cluster.broker(2).log_dirs for path in each.replicas().values()
        ]
        wait_for(
            "retention at work",
            lambda: any(not (path / f"{0:020d}.log").exists() for path in folders),
        )
        assert scene.cluster.node(2).stop() == 0
        assert "went offline" not in scene.said(2)
        for path in scene.cluster.broker(2).paths:
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
        lost = partitions_in(path, ledger.topic)
        assert lost != set(range(12))
        scene.break_and_wait("chmod000", follower, path)
        ledger.produce(120)
        scene.check(ledger)
        states = scene.cluster.image().topics.by_name[ledger.topic].partitions
        for index, state in states.items():
            assert (follower in state.isr) == (index not in lost)


def test_leader_in_a_dead_directory_does_not_shrink_the_isr_kafka_7837(stage: Stage) -> None:
    """There a leader whose directory had failed threw its followers out of the ISR, and could leave
    nobody; here the others take over, all of them.
    """
    with stage.scene() as scene:
        ledger = scene.topic(6, min_insync_replicas="2")
        leader, path = scene.leader(ledger)
        lost = partitions_in(path, ledger.topic)
        scene.break_and_wait("chmod000", leader, path)
        others = {broker for broker in scene.cluster.broker_ids if broker != leader}
        ledger.produce()
        # Whatever the old leader may still have asked for has been decided by then.
        scene.let_work(leader)
        scene.let_all_act()
        isr = scene.cluster.isr(ledger.topic)
        assert {p: isr[p] for p in lost} == dict.fromkeys(lost, others)
        scene.check(ledger)


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


# Telling the controller


def test_broker_without_leaders_in_the_dead_directory_does_not_stop_kafka_15649(
    stage: Stage,
) -> None:
    """There a broker stopped when it could not tell the controller in time, even if it led nothing
    in that directory; here only who leads something stops, and each failure has its own timer.
    """
    with stage.scene() as scene:
        cluster = scene.cluster
        for broker in (2, 3):
            set_property(cluster.node(broker), FAILURE_TIMEOUT, "1000")
        scene.restart(2, 3)
        topic = scene.topic_at([[2, 3], [3, 2]], min_insync_replicas="1")
        held = {b: cluster.broker(b).log_dir_of(topic, b - 2).path for b in (2, 3)}
        empty = next(each for each in cluster.broker(2).paths if not partitions_in(each, topic))
        cluster.node(CONTROLLER_ID).kill()
        scene.faults.make("chmod000", empty)
        wait_for("it noticed", lambda: f"{empty} went offline" in scene.said(2))
        # The timer of a failure that came later, on a broker that leads there, runs out later.
        scene.faults.make("delete", held[3])
        assert cluster.node(3).wait_ended() == 1
        assert "couldn't communicate offline log dir" in cluster.node(3).log_lines(1)[0]
        ((_, state),) = scene.metric(2, BROKER_STATE)
        assert state == RUNNING
        # The second failure is of the directory in which it leads; the first does not hide it.
        scene.faults.make("chmod000", held[2])
        assert cluster.node(2).wait_ended() == 1
        assert cluster.node(1).is_running
        for broker in (2, 3):
            set_property(cluster.node(broker), FAILURE_TIMEOUT, "30000")


def test_assignments_of_deleted_topics_are_dropped_kafka_17190(stage: Stage) -> None:
    """There the queue of assignments went round for ever with topics that had been deleted; here it
    is empty soon (KAFKA-16886, replicas that were moved away, alike).
    """
    with stage.scene() as scene:
        for number in range(5):
            name = f"short-lived-{number}"
            scene.new_topics([name], 20, 2)
            scene.delete(name)
        last = scene.topic(6, 2)
        wait_for(
            "empty queues",
            lambda: all(queued_assignments(scene, b) == 0 for b in scene.cluster.broker_ids),
        )
        scene.check(last)


def test_failure_is_known_to_every_later_controller(stage: Stage) -> None:
    """There a failure that was reported once could be forgotten with that controller (KAFKA-15451);
    here each heartbeat carries all failed directories.
    """
    with stage.scene() as scene:
        ledger = scene.topic(6, min_insync_replicas="1")
        leader, path = scene.leader(ledger)
        scene.cluster.node(CONTROLLER_ID).kill()
        scene.faults.make("file", path)
        wait_for("it noticed", lambda: "went offline" in scene.said(leader))
        scene.cluster.node(CONTROLLER_ID).start()
        scene.wait_offline(leader, path)
        scene.bounce_controller(kill=True)
        ledger.produce()
        scene.check(ledger)
