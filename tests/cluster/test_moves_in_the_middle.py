"""What may happen to a move while most of the copy is still to be made: its source fails and is
repaired, an operator changes the target or the pace, the broker is killed.
"""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from jbodlab.peers.admin_requests import revive_log_dir
from jbodlab.vocabulary.error_code import ErrorCode
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    Load,
    assert_nothing_lost,
    assigned,
    directory_id,
    read_all,
    wait_for,
)
from tests.cluster.moving import (
    alter,
    fill,
    future_bytes,
    future_path,
    has_caught_up,
    is_moving,
    only_current,
    other_dir,
    set_move_rate,
    settled,
    wait_settled,
)
from tests.cluster.scenes import Stage

pytestmark = pytest.mark.cluster

MIB = 1 << 20
PACE = MIB // 2
"""Of a copy of some MiB that shall not come to its end before something has happened to it."""


def wait_for_a_part(cluster: Cluster, broker: int, topic: str) -> None:
    wait_for("a part of the copy", lambda: future_bytes(cluster, broker, topic) > MIB // 2)


def wait_for_the_end(cluster: Cluster, broker: int, topic: str) -> None:
    """Wait until there is one copy, where the metadata say."""
    wait_settled(cluster, broker, topic, 60)
    wait_for("one copy", lambda: only_current(cluster, broker, topic))


@pytest.mark.parametrize("when", ["copying", "asked for"])
def test_a_source_that_fails_and_is_revived(when: str, stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        topic = scene.topic(
            1, records=0, min_insync_replicas="2", internal_segment_bytes="300000"
        ).topic
        fill(cluster, topic, 2)
        with Load(cluster.bootstrap, topic, rate=1000) as load:
            leader = cluster.leaders(topic)[0]
            source = cluster.broker(leader).log_dir_of(topic, 0).path
            target = other_dir(cluster, leader, topic)
            if when == "copying":
                set_move_rate(cluster, leader, PACE)
            else:
                cluster.node(CONTROLLER_ID).signal(signal.SIGSTOP)
            assert alter(cluster, leader, {(topic, 0): target}) == {ErrorCode.NONE}
            wait_for_a_part(cluster, leader, topic)
            if when == "asked for":
                # It waits for the controller's word.
                wait_for("all of the copy", lambda: has_caught_up(cluster, leader, topic))

            scene.faults.make("chmod000", source)
            cluster.node(CONTROLLER_ID).signal(signal.SIGCONT)

            wait_for("another leader", lambda: cluster.leaders(topic)[0] not in (-1, leader))
            moment = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(moment, 0))
            assert alter(cluster, leader, {(topic, 0): source}) == {ErrorCode.KAFKA_STORAGE_ERROR}
            scene.faults.heal(source)
            revived = wait_for(
                "the directory",
                lambda: (
                    (
                        answer := asyncio.run(
                            revive_log_dir("127.0.0.1", cluster.node(leader).port, str(source), 60)
                        )
                    ).directory_id
                    and answer
                ),
            )
            assert revived.directory_id == directory_id(source)
            set_move_rate(cluster, leader, None)
            # The move goes on where it was, and comes to its end.
            wait_for("the move", lambda: (target / f"{topic}-0").is_dir(), 60)
            wait_for_the_end(cluster, leader, topic)
            cluster.wait_isr(topic, 60)
            assert cluster.broker(leader).log_dir_of(topic, 0).path == target
            assert assigned(cluster, leader, topic)[0] == directory_id(target)
        assert_nothing_lost(load, read_all(cluster.bootstrap, topic, 1))


def test_a_third_directory_in_the_middle_and_back(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        topic = scene.topic(1, 1, records=0, internal_segment_bytes="300000").topic
        fill(cluster, topic, 3)
        with Load(cluster.bootstrap, topic, rate=1000) as load:
            (broker,) = cluster.leaders(topic).values()
            source = cluster.broker(broker).log_dir_of(topic, 0).path
            second, third, *_ = (path for path in cluster.broker(broker).paths if path != source)
            set_move_rate(cluster, broker, PACE)
            for target in (second, third, second):
                assert alter(cluster, broker, {(topic, 0): target}) == {ErrorCode.NONE}
                wait_for(
                    "the future replica there",
                    lambda target=target: future_path(cluster, broker, topic) == target,
                )
                wait_for_a_part(cluster, broker, topic)
            assert alter(cluster, broker, {(topic, 0): source}) == {ErrorCode.NONE}
            assert not is_moving(cluster, broker, topic)
            wait_for("one copy", lambda: only_current(cluster, broker, topic))
            assert cluster.broker(broker).log_dir_of(topic, 0).path == source

            assert alter(cluster, broker, {(topic, 0): third}) == {ErrorCode.NONE}
            wait_for_a_part(cluster, broker, topic)
            set_move_rate(cluster, broker, None)
            wait_for("the move", lambda: (third / f"{topic}-0").is_dir())
            wait_for_the_end(cluster, broker, topic)
            moment = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(moment, 0))
        assert_nothing_lost(load, read_all(cluster.bootstrap, topic, 1))


def test_a_broker_that_is_killed_goes_on_where_it_was(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        topic = scene.topic(1, 1, records=0, internal_segment_bytes="300000").topic
        fill(cluster, topic, 4)
        with Load(cluster.bootstrap, topic, rate=500) as load:
            (broker,) = cluster.leaders(topic).values()
            target = other_dir(cluster, broker, topic)
            set_move_rate(cluster, broker, 2 * MIB)
            assert alter(cluster, broker, {(topic, 0): target}) == {ErrorCode.NONE}
            wait_for("a part of the copy", lambda: future_bytes(cluster, broker, topic) > MIB)
            # No byte more: what is there afterwards was there before.
            set_move_rate(cluster, broker, 0)
            assert is_moving(cluster, broker, topic)
            cluster.node(broker).kill()
            cluster.node(broker).start()
            cluster.wait_served()
            wait_for("the same copy", lambda: future_bytes(cluster, broker, topic) > MIB // 2)
            # The rate is the cluster's to remember: it is still in the middle.
            assert not settled(cluster, broker, topic)
            set_move_rate(cluster, broker, None)
            wait_for("the move", lambda: (target / f"{topic}-0").is_dir())
            wait_for_the_end(cluster, broker, topic)
        assert_nothing_lost(load, read_all(cluster.bootstrap, topic, 1))


def test_the_rate_holds_and_replication_does_not_count(stage: Stage) -> None:
    rate, mib = MIB, 3
    with stage.scene() as scene:
        cluster = scene.cluster
        topic = scene.topic(1, records=0, internal_segment_bytes="300000").topic
        fill(cluster, topic, mib)
        cluster.wait_isr(topic)
        follower = cluster.followers(topic, 0)[0].id
        target = other_dir(cluster, follower, topic)
        set_move_rate(cluster, follower, rate)
        begun_s = time.monotonic()
        assert alter(cluster, follower, {(topic, 0): target}) == {ErrorCode.NONE}
        with Load(cluster.bootstrap, topic, rate=1000) as load:
            wait_for("half of it", lambda: future_bytes(cluster, follower, topic) > mib * MIB // 2)
            # It may be slower on a machine that is busy, but never faster.
            assert time.monotonic() - begun_s > 0.8 * (mib / 2) * MIB / rate
            cluster.wait_isr(topic)
            wait_for("the move", lambda: (target / f"{topic}-0").is_dir(), 60)
            assert time.monotonic() - begun_s > 0.8 * mib * MIB / rate
        set_move_rate(cluster, follower, None)
        assert_nothing_lost(load, read_all(cluster.bootstrap, topic, 1))
