"""Directories that die while brokers run: every kind of fault, whatever a broker may be doing, and
whatever may come next. After each scenario nothing acknowledged is lost, and metadata, disks and
answers to clients agree; after healing and restarting everything is in sync again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import NewPartitions

from jbodlab.ids import BrokerId
from tests.cluster.disk_faults import KINDS
from tests.cluster.harness import CONTROLLER_ID, Cluster, Load, wait_for
from tests.cluster.invariants import assert_kept, copies_in, is_running, metadata, settle
from tests.cluster.scenes import Stage, some, steadily

pytestmark = pytest.mark.cluster

NEW_KINDS = [kind for kind in KINDS if kind not in ("chmod000", "readonly", "file", "delete")]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


@pytest.mark.parametrize("kind", some(NEW_KINDS, "chmod555", "empty", "mount_ro"))
def test_leader_under_load_loses_its_directory(kind: str, stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="2", records=0)
        with Load(scene.cluster.bootstrap, ledger.topic, partition=0) as load:
            leader, path = scene.leader(ledger)
            scene.break_and_wait(kind, leader, path)
            broken = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(broken, 0), 10)
        assert not load.errors
        scene.check(load)
        assert scene.cluster.leaders(ledger.topic)[0] != leader


@pytest.mark.parametrize("kind", some(NEW_KINDS, "noexec", "mount_over"))
def test_idle_follower_loses_its_directory(kind: str, stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic()
        follower, path = scene.follower(ledger)
        leader = scene.cluster.leaders(ledger.topic)[0]
        scene.break_and_wait(kind, follower, path)
        settle(scene.cluster)
        assert follower not in scene.cluster.isr(ledger.topic)[0]
        assert scene.cluster.leaders(ledger.topic)[0] == leader
        ledger.produce()
        scene.check(ledger)


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
        assigned = scene.cluster.assigned(broker, ledger.topic)
        gone = [p for p in range(4) if assigned[p] == scene.ids[path]]
        assert gone
        for other in scene.cluster.log_dirs(broker):
            if other != path:
                assert not set(gone) & scene.cluster.partitions_in(other, ledger.topic)
        second = next(p for p in scene.cluster.log_dirs(broker) if p != path)
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


@pytest.mark.parametrize("after", some(["controller first", "broker first"], "broker first"))
def test_directory_dies_while_the_controller_is_away(after: str, stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic()
        leader, path = scene.leader(ledger)
        scene.cluster.kill(CONTROLLER_ID)
        scene.faults.make("chmod000", path)
        wait_for("it noticed", lambda: "went offline" in scene.said(leader))
        if after == "broker first":
            scene.cluster.kill(leader)
            scene.cluster.start_node(leader)
        scene.cluster.start_node(CONTROLLER_ID)
        scene.cluster.wait_ready()
        scene.wait_offline(leader, path)
        ledger.produce()
        scene.check(ledger)


def test_two_directories_die_in_the_same_moment_and_a_third_later(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        one, two, three, _ = scene.cluster.log_dirs(2)
        for path in (one, two):
            scene.faults.make("chmod000", path)
        scene.wait_offline(2, one, two)
        ledger.produce()
        scene.break_and_wait("delete", 2, three)
        ledger.produce()
        scene.check(ledger)
        assert is_running(scene.cluster, 2)


def test_all_directories_die_in_the_same_moment(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1")
        for path in scene.cluster.log_dirs(2):
            scene.faults.make("chmod000", path)
        assert scene.cluster.processes[2].wait(20) == 1
        lines = [line for line in scene.said(2).splitlines() if line.strip()]
        assert "all log directories" in lines[-1]
        scene.cluster.processes.pop(2)
        ledger.produce()
        scene.check(ledger)
        # And it cannot be started.
        code, line = scene.cluster.run_to_end(2)
        assert (code, "none of the specified log dirs" in line or "meta.properties" in line) == (
            1,
            True,
        )


def test_the_directories_of_all_replicas_die_one_after_another(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(1, min_insync_replicas="1")
        last = 0
        for _ in scene.cluster.brokers:
            last, path = scene.leader(ledger)
            scene.break_and_wait("chmod000", last, path)
            settle(scene.cluster)
            assert scene.cluster.leaders(ledger.topic)[0] != last
            if scene.cluster.leaders(ledger.topic)[0] != -1:
                ledger.produce(20)
        assert scene.cluster.leaders(ledger.topic)[0] == -1
        settle(scene.cluster)
        # The first to return has not all of it, so it may not lead; the last one has.
        scene.faults.heal_all()
        others = [broker for broker in scene.cluster.brokers if broker != last]
        scene.restart(*others)
        steadily("nobody may lead", lambda: scene.cluster.leaders(ledger.topic)[0] == -1, 1.5)
        scene.restart(last)
        wait_for("a leader", lambda: scene.cluster.leaders(ledger.topic)[0] == last)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_a_broker_is_killed_after_the_directory_of_another_died(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1")
        leader, path = scene.leader(ledger)
        scene.break_and_wait("chmod000", leader, path)
        victim = scene.cluster.leaders(ledger.topic)[0]
        scene.cluster.kill(victim)
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
        ledger.produce()
        scene.create(f"{ledger.topic}-new")
        steadily(
            "nobody touches it",
            lambda: {entry: entry.stat().st_mtime_ns for entry in path.rglob("*")} == before,
            2.5,
        )
        assert scene.ids[path] not in scene.registered(leader)
        scene.check(ledger)
        scene.restart(leader)
        scene.wait_all_in_sync()
        scene.check(ledger)


@pytest.mark.soak
def test_directory_dies_while_topics_are_created(stage: Stage) -> None:
    with stage.scene() as scene:
        names = [f"made-{number}" for number in range(8)]
        path = scene.cluster.log_dirs(1)[2]
        scene.new_topics(names[:4], 6)
        scene.faults.make("chmod000", path)
        scene.new_topics(names[4:], 6)
        scene.wait_offline(1, path)
        settle(scene.cluster)
        for name in names:
            assert all(leader > 0 for leader in scene.cluster.leaders(name).values())
        # Of those that had to be made elsewhere none is missing.
        image = metadata(scene.cluster)
        for name in names[4:]:
            for state in image.topics.by_name[name].partitions.values():
                assert state.directory(BrokerId(1)) != scene.ids[path] or 1 not in state.isr


@pytest.mark.parametrize("kind", some(["chmod000", "readonly", "delete"], "chmod000"))
def test_directory_dies_in_the_middle_of_a_creation(kind: str, stage: Stage) -> None:
    """What it began is finished elsewhere or not at all, and is no second copy when it is back."""
    with stage.scene() as scene:
        for number in range(3):
            path = scene.cluster.log_dirs(1)[number]
            name = f"begun-{kind}-{number}"
            scene.new_topics([name], 120, 3)
            wait_for("the first replicas", lambda: scene.cluster.partitions_in(path, name))  # noqa: B023
            scene.faults.make(kind, path)
            scene.wait_offline(1, path)
            settle(scene.cluster)
            scene.restart_all_healed()
            scene.delete(name)


def test_directory_dies_while_topics_are_deleted(stage: Stage) -> None:
    with stage.scene() as scene:
        kept = scene.topic()
        doomed = [scene.topic(8) for _ in range(3)]
        path = scene.cluster.log_dirs(1)[1]
        for future in scene.cluster.admin().delete_topics([d.topic for d in doomed]).values():
            future.result(30)
        scene.faults.make("chmod000", path)
        scene.forget(*(each.topic for each in doomed))
        scene.wait_offline(1, path)
        kept.produce()
        scene.check(kept)
        scene.faults.heal(path)
        scene.restart(1)
        scene.check(kept)
        for each in doomed:
            assert not scene.cluster.partitions_in(path, each.topic)


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


@pytest.mark.soak
def test_partitions_are_added_while_a_directory_is_dead(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic()
        leader, path = scene.leader(ledger)
        scene.break_and_wait("chmod000", leader, path)
        scene.cluster.admin().create_partitions([NewPartitions(ledger.topic, 12)])[
            ledger.topic
        ].result(30)
        wait_for(
            "leaders of the new ones",
            lambda: (
                len(found := scene.cluster.leaders(ledger.topic)) == 12
                and all(each > 0 for each in found.values())
            ),
        )
        settle(scene.cluster)
        state = metadata(scene.cluster).topics.by_name[ledger.topic].partitions
        for index in range(4, 12):
            assert leader in state[index].isr
        ledger.produce()
        scene.check(ledger)


def test_nobody_can_elect_a_replica_in_a_dead_directory(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(1, min_insync_replicas="1")
        image = metadata(scene.cluster)
        preferred = image.topics.by_name[ledger.topic].partitions[0].replicas[0]
        path = scene.cluster.directory_of(preferred, ledger.topic, 0)
        scene.break_and_wait("chmod000", preferred, path)
        settle(scene.cluster)
        wanted = [TopicPartition(ledger.topic, 0)]
        for kind in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
            with contextlib.suppress(KafkaException):
                scene.cluster.admin().elect_leaders(kind, wanted).result(30)
            assert scene.cluster.leaders(ledger.topic)[0] not in (preferred, -1)
        ledger.produce()
        scene.check(ledger)


def test_followers_folder_loses_its_permissions(stage: Stage) -> None:
    """Kafka sees it at the next roll; here it is found although nobody writes."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1")
        follower, path = scene.follower(ledger)
        folder = path / f"{ledger.topic}-0"
        folder.chmod(0)
        try:
            scene.wait_offline(follower, path)
            settle(scene.cluster)
            ledger.produce()
            scene.check(ledger)
        finally:
            folder.chmod(0o755)


@pytest.mark.parametrize("state", ["idle", "active"])
@pytest.mark.parametrize("target", ["roll", "checkpoint"])
def test_io_error_during_roll_or_checkpoint(target: str, state: str, stage: Stage) -> None:
    """The leader's next segment, or its next checkpoint, cannot be written."""
    with stage.scene() as scene:
        ledger = scene.topic(1, min_insync_replicas="1", segment_bytes="100000")
        leader, path = scene.leader(ledger)
        if target == "roll":
            broken = path / f"{ledger.topic}-0"
            broken.chmod(0o555)
        else:
            broken = path / "replication-offset-checkpoint"
            broken.unlink()
            # A folder that is not empty cannot be replaced by a file.
            (broken / "in-the-way").mkdir(parents=True)
        try:
            if state == "active":
                ledger.send(400, size=500)
            elif target == "checkpoint":
                ledger.send(5)
            scene.wait_offline(leader, path)
            ledger.finish()
            ledger.produce()
            scene.check(ledger)
            assert scene.cluster.leaders(ledger.topic)[0] != leader
        finally:
            broken.chmod(0o755)
            if target == "checkpoint":
                shutil.rmtree(broken)
        scene.restart(leader)
        scene.wait_all_in_sync()
        scene.check(ledger)


@pytest.mark.parametrize("call", ["short", "long"])
def test_a_call_that_never_returns(call: str, stage: Stage) -> None:
    """Nobody reads those pipes, so whoever opens one for writing waits for ever."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="2", records=0)
        leader, path = scene.leader(ledger)
        with Load(scene.cluster.bootstrap, ledger.topic, partition=0) as load:
            pipes = [path / ".jbodlab-probe"]
            if call == "long":
                # A checkpoint behind which the whole disk stands still.
                pipes = [path / "recovery-point-offset-checkpoint.tmp", *pipes]
            broken = time.monotonic()
            for pipe in pipes:
                make_pipe(scene.cluster, pipe)
            scene.wait_offline(leader, path, deadline_s=15)
            noticed_s = time.monotonic() - broken
            wait_for("acknowledgements", lambda: load.acknowledged_after(broken + noticed_s, 0), 15)
        assert not load.errors
        assert noticed_s < 10
        assert "no answer within" in scene.said(leader)
        scene.check(load)
        # The thread hangs for ever; the process ends all the same.
        assert scene.cluster.stop_node(leader) == 0
        for pipe in pipes:
            pipe.unlink(missing_ok=True)


def make_pipe(cluster: Cluster, pipe: Path) -> None:
    """Put a pipe where a file is made again and again."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(pipe)
            break
        time.sleep(0.001)
    cluster.own(pipe)


def test_directory_dies_while_its_broker_stands_still(stage: Stage) -> None:
    """Stopped long enough to be fenced; it must not come back with the dead directory."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1")
        leader, path = scene.leader(ledger)
        scene.cluster.signal(leader, signal.SIGSTOP)
        scene.faults.make("chmod000", path)
        wait_for(
            "it is fenced",
            lambda: metadata(scene.cluster).cluster.brokers[BrokerId(leader)].fenced,
        )
        ledger.produce()
        scene.cluster.signal(leader, signal.SIGCONT)
        scene.wait_offline(leader, path)
        ledger.produce()
        scene.check(ledger)


@pytest.mark.parametrize("delay_s", some(["0", "0.2", "0.35", "0.5", "0.7", "1"], "0.35"))
def test_directory_dies_while_its_broker_starts(delay_s: str, stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        assert scene.cluster.stop_node(2) == 0
        path = scene.cluster.directory_of(2, ledger.topic, 0)
        scene.cluster.start_node(2)
        time.sleep(float(delay_s))
        scene.faults.make("chmod000", path)
        scene.cluster.wait_ready()
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
        assert scene.cluster.stop_node(leader) == 0
        others = [each for each in scene.cluster.log_dirs(leader) if each != path]
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
        for other in scene.cluster.log_dirs(leader):
            if other != path:
                assert 0 not in scene.cluster.partitions_in(other, ledger.topic)
        scene.faults.heal(path)
        scene.restart(leader)
        wait_for("the leader", lambda: scene.cluster.leaders(ledger.topic)[0] == leader)
        ledger.produce()
        scene.check(ledger)


def test_rolling_bounce_with_a_dead_directory_on_every_broker(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(6, min_insync_replicas="1", records=0)
        with Load(scene.cluster.bootstrap, ledger.topic) as load:
            for number, broker in enumerate(scene.cluster.brokers):
                path = scene.cluster.log_dirs(broker)[number]
                scene.break_and_wait("chmod000", broker, path)
            for broker in scene.cluster.brokers:
                scene.restart(broker)
                settle(scene.cluster)
            for number, broker in enumerate(scene.cluster.brokers):
                scene.faults.heal(scene.cluster.log_dirs(broker)[number])
                scene.restart(broker)
            scene.wait_all_in_sync()
        scene.check(load)


@pytest.mark.soak
def test_removed_replica_folder_under_load(stage: Stage) -> None:
    """One replica is lost, its directory is not."""
    with stage.scene() as scene:
        ledger = scene.topic(min_insync_replicas="1", segment_bytes="20000", records=0)
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
        there = [copy.path.name for d in scene.cluster.log_dirs(leader) for copy in copies_in(d)]
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
            for broker in scene.cluster.brokers:
                for number in (0, 2):
                    path = scene.cluster.log_dirs(broker)[number]
                    scene.break_and_wait(kinds[(broker + number) % 4], broker, path)
                    scene.faults.heal(path)
                    scene.restart(broker)
                    scene.wait_all_in_sync()
        assert not load.errors
        assert_kept(scene.cluster, load)
