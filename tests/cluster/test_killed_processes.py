"""kill -9 of a broker and of the controller under load, clean stops, and starts after both."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cluster.harness import (
    CONTROLLER_ID,
    Load,
    assert_nothing_lost,
    read_all,
    running,
    wait_for,
)

pytestmark = pytest.mark.cluster

SHORT_SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def test_killed_broker_loses_no_acknowledged_record(cluster_root: Path) -> None:
    with running(cluster_root, settings=SHORT_SESSION) as cluster:
        cluster.create_topic("load", 6, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, "load") as load:
            victim = cluster.leaders("load")[0]
            cluster.kill(victim)
            wait_for(
                "new leaders after the session timeout",
                lambda: (
                    victim not in cluster.leaders("load").values()
                    and -1 not in cluster.leaders("load").values()
                ),
            )
            moved = time.monotonic()
            wait_for("acknowledgements again", lambda: load.acknowledged_after(moved, 0))
            cluster.start_node(victim)
            cluster.wait_ready()
            wait_for(
                "the killed broker back in every ISR",
                lambda: all(victim in isr for isr in cluster.isr("load").values()),
                deadline_s=60,
            )
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", 6))


def test_killed_controller_stops_no_producer(cluster_root: Path) -> None:
    with running(cluster_root) as cluster:
        cluster.create_topic("load", 6, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, "load") as load:
            cluster.kill(CONTROLLER_ID)
            killed = time.monotonic()
            wait_for(
                "acknowledgements without a controller",
                lambda: load.acknowledged_after(killed + 1, 0),
            )
            cluster.start_node(CONTROLLER_ID)
            wait_for("a topic created afterwards", lambda: creates_topic(cluster, "after"))
            leader = cluster.leaders("load")[0]
            directory = cluster.directory_of(leader, "load", 0)
            cluster.inject("chmod000", directory)
            wait_for("a new leader", lambda: cluster.leaders("load")[0] not in (leader, -1))
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", 6))


def creates_topic(cluster, name: str) -> bool:
    try:
        cluster.create_topic(name, 1, 3)
    except Exception:  # noqa: BLE001 - the controller is not back yet
        return False
    return True


def test_directory_that_dies_while_the_controller_is_away_is_reported_later(
    cluster_root: Path,
) -> None:
    with running(cluster_root) as cluster:
        cluster.create_topic("idle", 3, 3)
        leader = cluster.leaders("idle")[0]
        cluster.kill(CONTROLLER_ID)
        cluster.inject("chmod000", cluster.directory_of(leader, "idle", 0))
        wait_for("the failure noticed", lambda: "went offline" in cluster.output(leader))
        cluster.start_node(CONTROLLER_ID)
        wait_for("a new leader", lambda: cluster.leaders("idle")[0] not in (leader, -1))


def test_all_processes_killed_at_once_lose_nothing(cluster_root: Path) -> None:
    with running(cluster_root, settings=SHORT_SESSION) as cluster:
        cluster.create_topic("load", 6, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, "load") as load:
            wait_for("some records", lambda: len(load.acknowledged) > 500)
            for node in [*cluster.brokers, CONTROLLER_ID]:
                cluster.kill(node)
            for node in [CONTROLLER_ID, *cluster.brokers]:
                cluster.start_node(node)
            cluster.wait_ready()
            again = time.monotonic()
            wait_for("acknowledgements again", lambda: load.acknowledged_after(again, 0), 60)
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", 6))


def test_clean_stop_exits_with_zero_and_starts_again_at_once(cluster_root: Path) -> None:
    with running(cluster_root) as cluster:
        cluster.create_topic("load", 6, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, "load") as load:
            stopped = cluster.leaders("load")[0]
            assert cluster.stop_node(stopped) == 0
            for path in cluster.log_dirs(stopped):
                assert (path / ".kafka_cleanshutdown").exists()
            cluster.start_node(stopped)
            cluster.wait_ready()
            wait_for(
                "the broker back in every ISR",
                lambda: all(stopped in isr for isr in cluster.isr("load").values()),
                deadline_s=60,
            )
        assert_nothing_lost(load, read_all(cluster.bootstrap, "load", 6))
        assert load.longest_gap_s() < 8, "a clean stop hands leadership over"
        assert cluster.stop_node(CONTROLLER_ID) == 0
