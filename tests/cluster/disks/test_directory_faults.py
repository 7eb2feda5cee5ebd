"""A directory dies, under load or idle, on the leader's or on a follower's side, in every way in
which directories die; nothing that was acknowledged is lost, and nobody waits for the dead disk.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from jbodlab.vocabulary.ids import BrokerId
from tests.cluster.disk_faults import KINDS, TOOL_KINDS
from tests.cluster.harness import CONTROLLER_ID, Cluster, Load, on_disk, partitions_in, wait_for
from tests.cluster.lab_cluster import set_property
from tests.cluster.scenes import SETTINGS, Scene, Stage, Stages, some

pytestmark = pytest.mark.cluster

PARTITIONS = 6
HOUR_MS = "3600000"
QUIET = {
    **SETTINGS,
    "log.initial.task.delay.ms": HOUR_MS,
    "log.retention.check.interval.ms": HOUR_MS,
    "log.flush.offset.checkpoint.interval.ms": HOUR_MS,
    "log.flush.start.offset.checkpoint.interval.ms": HOUR_MS,
    "replica.high.watermark.checkpoint.interval.ms": HOUR_MS,
}


@pytest.fixture
def quiet(stages: Stages) -> Stage:
    """A stage on which nothing but its probe touches a directory that nobody writes to."""
    return stages.of(settings=QUIET)


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("kind", some(KINDS, *TOOL_KINDS, "chmod555", "empty", "mount_ro"))
def test_dead_directory_holds_nothing_back(kind: str, role: str, scene: Scene) -> None:
    """Kafka's leader waits `replica.lag.time.max.ms` for a follower, here longer than this may."""
    ledger = scene.topic(PARTITIONS, records=0, min_insync_replicas="2")
    # One partition only: with its leader gone nothing else can hide the silence.
    with Load(scene.cluster.bootstrap, ledger.topic, partition=0) as load:
        leader, _ = scene.leader(ledger)
        broker, path = scene.leader(ledger) if role == "leader" else scene.follower(ledger)
        scene.break_and_wait(kind, broker, path)
        broken = time.monotonic()
        wait_for(
            "an acknowledgement after the directory died",
            lambda: load.acknowledged_after(broken, 0),
        )
    assert not load.errors
    scene.check(load)
    assert (scene.cluster.leaders(ledger.topic)[0] == leader) is (role == "follower")
    assert broker not in scene.cluster.isr(ledger.topic)[0]


@pytest.mark.parametrize("controller_away_s", [0.0, 3.0])
def test_producers_are_told_the_next_leader_and_not_of_the_dead_disk(
    controller_away_s: float, scene: Scene
) -> None:
    """Some clients that hear of the disk ask who leads, hear of the old leader, and wait 5 s.

    Others raise it to the application. Nobody can be told before the controller has named a leader.
    """
    ledger = scene.topic(1, records=0, min_insync_replicas="2")
    told: Counter[int | None] = Counter()
    acknowledged: list[float] = []
    done = threading.Event()

    def delivered(error: KafkaError | None, _: object) -> None:
        told[None if error is None else error.code()] += 1
        if error is None:
            acknowledged.append(time.monotonic())

    def produce() -> None:
        # A refused batch is not tried again here, so that the refusal is seen.
        producer = Producer(
            {"bootstrap.servers": scene.cluster.bootstrap, "retries": 0, "log_level": 0}
        )
        while not done.is_set():
            producer.produce(ledger.topic, b"x", on_delivery=delivered)
            producer.poll(0.002)
        producer.flush(30)

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        wait_for("the first acknowledgement", lambda: acknowledged)
        leader, path = scene.leader(ledger)
        controller = scene.cluster.node(CONTROLLER_ID)
        if controller_away_s:
            controller.signal(signal.SIGSTOP)
        try:
            scene.faults.make("chmod000", path)
            wait_for("the broker's word", lambda: f"{path} went offline" in scene.said(leader))
            broken = time.monotonic()
            # The length of the fault: longer than any broker has ever waited.
            done.wait(controller_away_s)
        finally:
            controller.signal(signal.SIGCONT)
        wait_for(
            "an acknowledgement of the next leader",
            lambda: acknowledged[-1] > broken and scene.leader(ledger)[0] != leader,
        )
    finally:
        done.set()
        thread.join(60)
    assert KafkaError.KAFKA_STORAGE_ERROR not in told, told
    assert set(told) <= {None, KafkaError.NOT_LEADER_FOR_PARTITION}, told


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("kind", some(KINDS, *TOOL_KINDS, "noexec", "mount_over"))
def test_dead_directory_is_found_although_nobody_writes(kind: str, role: str, quiet: Stage) -> None:
    with quiet.scene() as scene:
        ledger = scene.topic(PARTITIONS)
        broker, path = scene.leader(ledger) if role == "leader" else scene.follower(ledger)
        others = [each for each in scene.cluster.broker(broker).paths if each != path]
        touched = partitions_in(path, ledger.topic)
        scene.break_and_wait(kind, broker, path)
        ledger.produce()
        scene.check(ledger)

        assert f"{path} went offline" in scene.said(broker)
        for other in others:
            assert f"{other} went offline" not in scene.said(broker)
        isr = scene.cluster.isr(ledger.topic)
        assert {p for p in isr if broker not in isr[p]} == touched, "others are untouched"


def test_an_empty_directory_that_dies_is_found(quiet: Stage) -> None:
    with quiet.scene() as scene:
        empty = scene.cluster.broker(1).paths[1]
        scene.break_and_wait("chmod000", 1, empty)
        assert f"{empty} went offline" in scene.said(1)


def test_metadata_directory_of_a_broker_ends_it(scene: Scene) -> None:
    scene.faults.make("delete", scene.cluster.node(3).metadata_dir)
    assert scene.cluster.node(3).wait_ended() == 1


def test_one_directory_becomes_many_on_a_cluster_with_data(scene: Scene) -> None:
    """Brokers with one, two and four directories in one cluster; in the end all have four."""
    cluster = scene.cluster
    for broker, count in ((1, 1), (2, 2)):
        use_dirs(scene, broker, cluster.broker(broker).paths[:count])
    scene.restart(1, 2)
    ledger = scene.topic(9)
    scene.check(ledger)
    for node in cluster.brokers:
        assert len(scene.registered(node.id)) == len(node.configured_dirs)
    # Only what is dead is missing.
    scene.break_and_wait("chmod000", 2, cluster.broker(2).paths[1])
    ledger.produce()
    scene.check(ledger)
    # The only directory of a broker ends it.
    scene.faults.make("chmod000", cluster.broker(1).paths[0])
    assert cluster.node(1).wait_ended() == 1
    ledger.produce()
    scene.check(ledger)
    assert not cluster.image().cluster.brokers[BrokerId(2)].fenced

    scene.faults.heal_all()
    assert cluster.node(2).stop() == 0
    for broker in (1, 2):
        use_dirs(scene, broker, cluster.broker(broker).paths)
        cluster.node(broker).start()
    cluster.wait_served()
    scene.wait_all_in_sync()
    spread = scene.topic(12)
    for broker in cluster.broker_ids:
        assert len(set(on_disk(cluster, broker, spread.topic).values())) > 1
    ledger.produce()
    scene.check(ledger, spread)


def use_dirs(scene: Scene, broker: int, paths: list[Path]) -> None:
    set_property(scene.cluster.node(broker), "log.dirs", ",".join(map(str, paths)))


@pytest.mark.parametrize("kind", ["chmod000", "delete"])
def test_controller_without_its_directory_stops(kind: str, scene: Scene) -> None:
    controller = scene.cluster.node(CONTROLLER_ID)
    scene.faults.make(kind, controller.metadata_dir)
    assert controller.wait_ended() == 1
    lines = [line for line in scene.said(CONTROLLER_ID).splitlines() if line.strip()]
    assert str(controller.metadata_dir) in lines[-1]
    assert all(broker.is_running for broker in scene.cluster.brokers)


def test_a_call_that_never_returns(scene: Scene) -> None:
    """Nobody reads those pipes, so whoever opens one for writing waits for ever."""
    ledger = scene.topic(min_insync_replicas="2", records=0)
    leader, path = scene.leader(ledger)
    with Load(scene.cluster.bootstrap, ledger.topic, partition=0) as load:
        # A checkpoint behind which the whole disk stands still, and the probe.
        pipes = [path / "recovery-point-offset-checkpoint.tmp", path / ".jbodlab-probe"]
        for pipe in pipes:
            make_pipe(scene.cluster, pipe)
        scene.wait_offline(leader, path)
        noticed = time.monotonic()
        wait_for("acknowledgements", lambda: load.acknowledged_after(noticed, 0))
    assert not load.errors
    assert "no answer within" in scene.said(leader)
    scene.check(load)
    # The thread hangs for ever; the process ends all the same.
    assert scene.cluster.node(leader).stop() == 0
    for pipe in pipes:
        pipe.unlink(missing_ok=True)


def make_pipe(cluster: Cluster, pipe: Path) -> None:
    """Put a pipe where a file is made again and again."""

    def is_made() -> bool:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(pipe)
            return True
        return False

    wait_for(f"the pipe {pipe}", is_made)
    cluster.own(pipe)
