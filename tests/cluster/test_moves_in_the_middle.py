"""What may happen to a move while most of the copy is still to be made: its source fails and is
repaired, an operator changes the target or the pace, the broker is killed.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from jbodlab.admin_requests import revive_log_dir
from jbodlab.error_code import ErrorCode
from jbodlab.log.names import DirKind
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    Load,
    assert_nothing_lost,
    directory_id,
    read_all,
    running,
    wait_for,
)
from tests.cluster.moving import alter, described, fill, is_moving, kinds, set_move_rate
from tests.cluster.test_moves import (
    SETTINGS,
    TOPIC,
    other_dir,
    settled,
    wait_in_sync,
    wait_settled,
)

pytestmark = pytest.mark.cluster

MIB = 1 << 20


def future_bytes(cluster: Cluster, broker: int) -> int:
    """Size of the future replica, 0 if there is none."""
    return sum(each.size for each in described(cluster, broker, TOPIC, 0) if each.is_future)


def future_path(cluster: Cluster, broker: int) -> Path | None:
    found = [each.path for each in described(cluster, broker, TOPIC, 0) if each.is_future]
    return found[0] if found else None


def only_current(cluster: Cluster, broker: int) -> bool:
    """Whether no copy is left beside the replica, whatever its name."""
    return [kind for kind, _ in kinds(cluster, broker, TOPIC)[0]] == [DirKind.CURRENT]


@pytest.mark.parametrize("stage", ["copying", "asked for"])
def test_a_source_that_fails_and_is_revived(cluster_root: Path, stage: str) -> None:
    with running(cluster_root, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 1, 3, min_insync_replicas="2")
        fill(cluster, TOPIC, 4)
        with Load(cluster.bootstrap, TOPIC, rate=1000) as load:
            leader = cluster.leaders(TOPIC)[0]
            source, target = cluster.directory_of(leader, TOPIC, 0), other_dir(cluster, leader, 0)
            if stage == "copying":
                set_move_rate(cluster, leader, 300_000)
            else:
                cluster.signal(CONTROLLER_ID, signal.SIGSTOP)
            assert alter(cluster, leader, {(TOPIC, 0): target}) == {ErrorCode.NONE}
            wait_for("a part of the copy", lambda: future_bytes(cluster, leader) > MIB)
            if stage == "asked for":
                wait_for("all of the copy", lambda: future_bytes(cluster, leader) > 4 * MIB)
                # It has caught up, and waits for the controller's word.
                time.sleep(0.5)

            fault = cluster.inject("chmod000", source)
            cluster.signal(CONTROLLER_ID, signal.SIGCONT)

            wait_for("another leader", lambda: cluster.leaders(TOPIC)[0] not in (-1, leader))
            moment = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(moment, 0))
            assert alter(cluster, leader, {(TOPIC, 0): source}) == {ErrorCode.KAFKA_STORAGE_ERROR}
            cluster.heal(fault)
            revived = wait_for(
                "the directory",
                lambda: (
                    (
                        answer := asyncio.run(
                            revive_log_dir("127.0.0.1", cluster.ports[leader], str(source), 60)
                        )
                    ).directory_id
                    and answer
                ),
            )
            assert revived.directory_id == directory_id(source)
            set_move_rate(cluster, leader, None)
            # The move goes on where it was, and comes to its end.
            wait_for("the move", lambda: (target / f"{TOPIC}-0").is_dir(), 60)
            wait_settled(cluster, leader)
            wait_in_sync(cluster)
            wait_for("one copy", lambda: only_current(cluster, leader))
            assert cluster.directory_of(leader, TOPIC, 0) == target
            assert cluster.assigned(leader, TOPIC)[0] == directory_id(target)
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 1))


def test_a_third_directory_in_the_middle_and_back(cluster_root: Path) -> None:
    with running(cluster_root, brokers=1, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 1, 1)
        fill(cluster, TOPIC, 4)
        with Load(cluster.bootstrap, TOPIC, rate=1000) as load:
            source = cluster.directory_of(1, TOPIC, 0)
            second, third = (path for path in cluster.log_dirs(1) if path != source)
            set_move_rate(cluster, 1, 400_000)
            for target in (second, third, second):
                assert alter(cluster, 1, {(TOPIC, 0): target}) == {ErrorCode.NONE}
                wait_for(
                    "a part of the copy",
                    lambda target=target: (
                        future_path(cluster, 1) == target and future_bytes(cluster, 1) > MIB // 2
                    ),
                )
            assert alter(cluster, 1, {(TOPIC, 0): source}) == {ErrorCode.NONE}
            assert not is_moving(cluster, 1, TOPIC)
            wait_for("one copy", lambda: only_current(cluster, 1))
            assert cluster.directory_of(1, TOPIC, 0) == source

            assert alter(cluster, 1, {(TOPIC, 0): third}) == {ErrorCode.NONE}
            wait_for("a part of the copy", lambda: future_bytes(cluster, 1) > MIB // 2)
            set_move_rate(cluster, 1, None)
            wait_for("the move", lambda: (third / f"{TOPIC}-0").is_dir())
            wait_settled(cluster, 1)
            wait_for("one copy", lambda: only_current(cluster, 1))
            moment = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(moment, 0))
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 1))


def test_a_broker_that_is_killed_goes_on_where_it_was(cluster_root: Path) -> None:
    with running(cluster_root, brokers=1, dirs=2, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 1, 1)
        fill(cluster, TOPIC, 4)
        with Load(cluster.bootstrap, TOPIC, rate=500) as load:
            target = other_dir(cluster, 1, 0)
            set_move_rate(cluster, 1, 400_000)
            assert alter(cluster, 1, {(TOPIC, 0): target}) == {ErrorCode.NONE}
            wait_for("a part of the copy", lambda: future_bytes(cluster, 1) > MIB)
            cluster.kill(1)
            cluster.start_node(1)
            cluster.wait_ready()
            wait_for("the same copy", lambda: future_bytes(cluster, 1) > MIB // 2)
            # The rate is the cluster's to remember: it is still in the middle.
            assert not settled(cluster, 1)
            set_move_rate(cluster, 1, None)
            wait_for("the move", lambda: (target / f"{TOPIC}-0").is_dir())
            wait_settled(cluster, 1)
            wait_for("one copy", lambda: only_current(cluster, 1))
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 1))


def test_the_rate_holds_and_replication_does_not_count(cluster_root: Path) -> None:
    rate, mib = 1 << 20, 10
    with running(cluster_root, brokers=2, dirs=2, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 1, 2)
        fill(cluster, TOPIC, mib)
        wait_in_sync(cluster)
        follower = next(each for each in cluster.brokers if each != cluster.leaders(TOPIC)[0])
        target = other_dir(cluster, follower, 0)
        set_move_rate(cluster, follower, rate)
        begun_s = time.monotonic()
        assert alter(cluster, follower, {(TOPIC, 0): target}) == {ErrorCode.NONE}
        with Load(cluster.bootstrap, TOPIC, rate=1000) as load:
            wait_for("half of the copy", lambda: future_bytes(cluster, follower) > mib * MIB // 2)
            assert time.monotonic() - begun_s > 0.8 * (mib / 2) * MIB / rate
            wait_in_sync(cluster)
            wait_for("the move", lambda: (target / f"{TOPIC}-0").is_dir(), 60)
            assert time.monotonic() - begun_s > 0.8 * mib * MIB / rate
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 1))
