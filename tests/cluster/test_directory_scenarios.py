"""Directories that die while brokers run: every kind of fault, whatever a broker may be doing, and
whatever may come next. After each scenario nothing acknowledged is lost, and metadata, disks and
answers to clients agree; after healing and restarting everything is in sync again.
"""

from __future__ import annotations

import contextlib
import signal
import time

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition

from jbodlab.storage.directory import names
from jbodlab.vocabulary.ids import BrokerId
from tests.cluster.harness import CONTROLLER_ID, Load, assigned, partitions_in, wait_for
from tests.cluster.invariants import assert_kept, copies_in, settle
from tests.cluster.lab_cluster import run_to_end
from tests.cluster.scenes import MOMENTS, Stage, some

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("kind", some(["chmod000", "chmod555", "file"], "chmod000"))
def test_bounce_with_the_directory_still_dead(kind: str, role: str, stage: Stage) -> None:
    """Kafka's system test of log directory failure, with a bounce, and a second failure."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="2", records=0)
        broker, path = scene.leader(ledger) if role == "leader" else scene.follower(ledger)
        with Load(scene.cluster.bootstrap, ledger.topic) as load:
            scene.break_and_wait(kind, broker, path)
            scene.restart(broker)
            scene.wait_offline(broker, path)
        assert not load.errors
        scene.check(load)
        # What was in there is nowhere else on that broker.
        before = assigned(scene.cluster, broker, ledger.topic)
        gone = [p for p in range(4) if before[p] == scene.ids[path]]
        assert gone
        for other in scene.cluster.broker(broker).paths:
            if other != path:
                assert not set(gone) & partitions_in(other, ledger.topic)
        second = next(p for p in scene.cluster.broker(broker).paths if p != path)
        with Load(scene.cluster.bootstrap, scene.topic(records=0).topic) as load:
            scene.faults.make("chmod000", second)
            scene.wait_offline(broker, path, second)
        scene.check(load)


@pytest.mark.parametrize("how", some(["stopped", "killed"], "killed"))
def test_controller_restarts_after_a_directory_died(how: str, stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic()
        leader, path = scene.leader(ledger)
        scene.break_and_wait("chmod000", leader, path)
        scene.bounce_controller(kill=how == "killed")
        ledger.produce()
        scene.check(ledger)
        assert scene.ids[path] not in scene.registered(leader)
        # It still hears of the next one.
        other = scene.topic()
        broker, second = scene.leader(other)
        if second != path:
            scene.faults.make("file", second)
            wait_for("the second one", lambda: scene.ids[second] not in scene.registered(broker))
        other.produce()
        scene.check(ledger, other)


def test_directory_dies_while_the_controller_is_away_and_its_broker_restarts(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic()
        leader, path = scene.leader(ledger)
        scene.cluster.node(CONTROLLER_ID).kill()
        scene.faults.make("chmod000", path)
        wait_for("it noticed", lambda: "went offline" in scene.said(leader))
        scene.cluster.node(leader).kill()
        scene.cluster.node(leader).start()
        scene.cluster.node(CONTROLLER_ID).start()
        scene.cluster.wait_served()
        scene.wait_offline(leader, path)
        ledger.produce()
        scene.check(ledger)


def test_two_directories_die_in_the_same_moment_and_a_third_later(stage: Stage) -> None:
    """The first is one of them: a broker whose metadata are elsewhere goes on (KAFKA-16195)."""
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        one, two, three, _ = scene.cluster.broker(2).paths
        for path in (one, two):
            scene.faults.make("chmod000", path)
        scene.wait_offline(2, one, two)
        ledger.produce()
        scene.break_and_wait("delete", 2, three)
        ledger.produce()
        scene.check(ledger)
        assert scene.cluster.node(2).is_running


def test_all_directories_die_in_the_same_moment(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1")
        for path in scene.cluster.broker(2).paths:
            scene.faults.make("chmod000", path)
        assert scene.cluster.node(2).wait_ended(20) == 1
        lines = [line for line in scene.said(2).splitlines() if line.strip()]
        assert "all log directories" in lines[-1]
        ledger.produce()
        scene.check(ledger)
        # And it cannot be started.
        code, line = run_to_end(scene.cluster.node(2))
        assert (code, "none of the specified log dirs" in line or "meta.properties" in line) == (
            1,
            True,
        )


def test_the_directories_of_all_replicas_die_one_after_another(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(1, min_insync_replicas="1")
        last, died = 0, {}
        for _ in scene.cluster.broker_ids:
            last, path = scene.leader(ledger)
            died[last] = scene.break_and_wait("chmod000", last, path)
            settle(scene.cluster)
            assert scene.cluster.leaders(ledger.topic)[0] != last
            if scene.cluster.leaders(ledger.topic)[0] != -1:
                ledger.produce(20)
        assert scene.cluster.leaders(ledger.topic)[0] == -1
        settle(scene.cluster)
        # The first to return has not all of it, so it may not lead; the last one has.
        scene.faults.heal_all()
        for broker, dead in died.items():
            if broker != last:
                assert not scene.revive(broker, dead).error_message
        scene.let_all_act()
        assert scene.cluster.leaders(ledger.topic)[0] == -1, "nobody may lead"
        assert not scene.revive(last, died[last]).error_message
        wait_for("a leader", lambda: scene.cluster.leaders(ledger.topic)[0] == last)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_a_broker_is_killed_after_the_directory_of_another_died(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1")
        leader, path = scene.leader(ledger)
        scene.break_and_wait("chmod000", leader, path)
        victim = scene.cluster.leaders(ledger.topic)[0]
        scene.cluster.node(victim).kill()
        ledger.produce()
        scene.check(ledger)
        scene.start(victim)
        ledger.produce()
        scene.check(ledger)


def test_a_healed_directory_stays_as_it_is_until_the_restart(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic()
        leader, path = scene.leader(ledger)
        scene.break_and_wait("chmod000", leader, path)
        ledger.produce()
        before = {entry: entry.stat().st_mtime_ns for entry in path.rglob("*")}
        scene.faults.heal(path)
        checkpoints = [
            (each / names.HIGH_WATERMARK_FILE, (each / names.HIGH_WATERMARK_FILE).stat())
            for each in scene.cluster.broker(leader).paths
            if each != path
        ]
        ledger.produce()
        scene.let_all_act()
        # Everything that works in the background has had its turn in the others.
        scene.let_work(leader)
        wait_for(
            "a checkpoint in each of the others",
            lambda: all(file.stat().st_mtime_ns != was.st_mtime_ns for file, was in checkpoints),
        )
        after = {entry: entry.stat().st_mtime_ns for entry in path.rglob("*")}
        assert after == before, "somebody touched it"
        assert scene.ids[path] not in scene.registered(leader)
        scene.check(ledger)
        scene.restart(leader)
        scene.wait_all_in_sync()
        scene.check(ledger)


@pytest.mark.parametrize("kind", some(["chmod000", "readonly", "delete"], "chmod000"))
def test_directory_dies_in_the_middle_of_a_creation(kind: str, stage: Stage) -> None:
    """What it began is finished elsewhere or not at all, and is no second copy when it is back."""
    with stage.scene() as scene:
        for number in range(3):
            path = scene.cluster.broker(1).paths[number]
            name = f"begun-{kind}-{number}"
            scene.new_topics([name], 120, 3)
            wait_for("the first replicas", lambda: partitions_in(path, name))  # noqa: B023
            scene.faults.make(kind, path)
            scene.wait_offline(1, path)
            settle(scene.cluster)
            scene.make_whole()
            scene.delete(name)


def test_directory_dies_while_topics_are_deleted(stage: Stage) -> None:
    with stage.scene() as scene:
        kept = scene.topic()
        doomed = [scene.topic(8) for _ in range(3)]
        path = scene.cluster.broker(1).paths[1]
        for future in scene.cluster.admin().delete_topics([d.topic for d in doomed]).values():
            future.result(30)
        scene.faults.make("chmod000", path)
        scene.forget(*(each.topic for each in doomed))
        scene.wait_offline(1, path)
        kept.produce()
        scene.check(kept)
        scene.make_whole()
        scene.check(kept)
        for each in doomed:
            assert not partitions_in(path, each.topic)


@pytest.mark.parametrize("kind", some(["chmod000", "file", "delete"]))
def test_topic_is_deleted_and_made_anew_while_its_directory_is_dead(
    kind: str, stage: Stage
) -> None:
    with stage.scene() as scene:
        first = scene.topic()
        leader, path = scene.leader(first)
        scene.break_and_wait(kind, leader, path)
        scene.delete(first.topic)
        scene.create(first.topic, 4, 3, min_insync_replicas="3")
        second = type(first)(scene.cluster, first.topic, 4)
        second.produce()
        scene.check(second)
        scene.restart(*([leader] if kind != "delete" else []))
        scene.check(second)
        scene.faults.heal(path)
        scene.restart(leader)
        scene.check(second)
        strays = [entry.name for entry in path.iterdir() if entry.name.endswith("-stray")]
        assert [name for name in strays if name.startswith(f"{first.topic}-0.")]


def test_nobody_can_elect_a_replica_in_a_dead_directory(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(1, min_insync_replicas="1")
        image = scene.cluster.image()
        preferred = image.topics.by_name[ledger.topic].partitions[0].replicas[0]
        path = scene.cluster.broker(preferred).log_dir_of(ledger.topic, 0).path
        scene.break_and_wait("chmod000", preferred, path)
        settle(scene.cluster)
        wanted = [TopicPartition(ledger.topic, 0)]
        for kind in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
            with contextlib.suppress(KafkaException):
                scene.cluster.admin().elect_leaders(kind, wanted).result(30)
            assert scene.cluster.leaders(ledger.topic)[0] not in (preferred, -1)
        ledger.produce()
        scene.check(ledger)


def test_directory_dies_while_its_broker_stands_still(stage: Stage) -> None:
    """Stopped long enough to be fenced; it must not come back with the dead directory."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1")
        leader, path = scene.leader(ledger)
        scene.cluster.node(leader).signal(signal.SIGSTOP)
        scene.faults.make("chmod000", path)
        wait_for(
            "it is fenced",
            lambda: scene.cluster.image().cluster.brokers[BrokerId(leader)].fenced,
        )
        ledger.begin_anew()
        ledger.produce()
        scene.cluster.node(leader).signal(signal.SIGCONT)
        scene.wait_offline(leader, path)
        ledger.produce()
        scene.check(ledger)


@pytest.mark.parametrize("moment", some(list(MOMENTS), "loads"))
def test_directory_dies_while_its_broker_starts(moment: str, stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        assert scene.cluster.node(2).stop() == 0
        path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
        scene.start_until(2, moment)
        scene.faults.make("chmod000", path)
        scene.cluster.wait_served()
        scene.wait_offline(2, path)
        ledger.produce()
        scene.check(ledger)


@pytest.mark.parametrize("kind", some(["chmod000", "chmod555", "file"], "chmod555"))
def test_directory_dies_before_its_broker_is_stopped(kind: str, stage: Stage) -> None:
    """No clean end is claimed for what could not be closed."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1")
        leader, path = scene.leader(ledger)
        scene.faults.make(kind, path)
        assert scene.cluster.node(leader).stop() == 0
        others = [each for each in scene.cluster.broker(leader).paths if each != path]
        assert all((each / ".kafka_cleanshutdown").exists() for each in others)
        scene.faults.heal(path)
        assert not (path / ".kafka_cleanshutdown").exists()
        ledger.produce()
        scene.start(leader)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_single_replica_in_a_dead_directory_waits_for_it(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(4, 1)
        leader, path = scene.leader(ledger)
        scene.break_and_wait("chmod000", leader, path)
        wait_for("no leader", lambda: scene.cluster.leaders(ledger.topic)[0] == -1)
        settle(scene.cluster)
        scene.restart(leader)
        settle(scene.cluster)
        assert scene.cluster.leaders(ledger.topic)[0] == -1
        for other in scene.cluster.broker(leader).paths:
            if other != path:
                assert 0 not in partitions_in(other, ledger.topic)
        scene.make_whole()
        assert scene.cluster.leaders(ledger.topic)[0] == leader
        ledger.produce()
        scene.check(ledger)


def test_rolling_bounce_with_a_dead_directory_on_every_broker(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(6, min_insync_replicas="1", records=0)
        with Load(scene.cluster.bootstrap, ledger.topic) as load:
            for number, broker in enumerate(scene.cluster.broker_ids):
                path = scene.cluster.broker(broker).paths[number]
                scene.break_and_wait("chmod000", broker, path)
            for broker in scene.cluster.broker_ids:
                scene.restart(broker)
                settle(scene.cluster)
            scene.make_whole()
        assert not load.errors
        scene.check(load)


@pytest.mark.soak
def test_removed_replica_folder_under_load(stage: Stage) -> None:
    """One replica is lost, its directory is not."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1", internal_segment_bytes="20000", records=0)
        leader, path = scene.leader(ledger)
        with Load(scene.cluster.bootstrap, ledger.topic, rate=300, partition=0) as load:
            aside = path.parent / f"{ledger.topic}-0"
            (path / f"{ledger.topic}-0").rename(aside)
            wait_for("another leader", lambda: scene.cluster.leaders(ledger.topic)[0] != leader)
            broken = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(broken, 0), 10)
        assert scene.ids[path] in scene.registered(leader)
        scene.check(load)
        scene.restart(leader)
        scene.wait_all_in_sync()
        scene.check(load)
        there = [
            copy.path.name for d in scene.cluster.broker(leader).paths for copy in copies_in(d)
        ]
        assert there.count(f"{ledger.topic}-0") == 1


@pytest.mark.soak
def test_last_acknowledged_records_survive_the_death_of_every_directory_in_turn(
    stage: Stage,
) -> None:
    """Twelve deaths in a row, each healed by a restart, under load all the time."""
    with stage.scene() as scene:
        ledger = scene.topic(6, min_insync_replicas="2", records=0)
        with Load(scene.cluster.bootstrap, ledger.topic, rate=200) as load:
            kinds = ["chmod000", "file", "delete", "readonly"]
            for broker in scene.cluster.broker_ids:
                for number in (0, 2):
                    path = scene.cluster.broker(broker).paths[number]
                    scene.break_and_wait(kinds[(broker + number) % 4], broker, path)
                    scene.faults.heal(path)
                    scene.restart(broker)
                    scene.wait_all_in_sync()
        assert not load.errors
        assert_kept(scene.cluster, load)
