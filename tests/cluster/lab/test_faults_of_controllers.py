"""Faults of the controllers of a quorum, by the words of the lab and of the fixture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fault_injection.errors import FaultError
from lab import opened
from lab.cluster import wait_for
from lab.testing.clusters import Cluster, Controller
from lab.watch.detecting import QUORUM, DetectingOfController, detecting

pytestmark = pytest.mark.cluster

MOVED_DEADLINE_S = 20.0


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(brokers=1, disks=1, controllers=3, calls=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.heal()

    def is_whole() -> bool:
        # One that has met the fault may end after it was healed.
        for each in shared.controllers:
            each.bring_back(None)
        return are_all_heard(shared)

    wait_for("three controllers that hear each other", is_whole)


def are_all_heard(cluster: Cluster) -> bool:
    return all(each.log_dir.state == "online" for each in cluster.controllers)


def assert_serves(cluster: Cluster) -> None:
    cluster.wait_leaders(cluster.new_topic(replicas=1))


def standbys(cluster: Cluster) -> list[Controller]:
    active = cluster.active_controller
    return [each for each in cluster.controllers if each.id != active.id]


def test_another_controller_is_active_when_the_active_one_is_killed(cluster: Cluster) -> None:
    active = cluster.active_controller

    with active.fails("kill") as fault:
        fault.wait_detected(MOVED_DEADLINE_S)
        assert not active.is_running
        assert cluster.active_controller.id != active.id
        assert_serves(cluster)

    assert active.is_running


@pytest.mark.parametrize("kind", ["eio", "permission"])
def test_another_controller_is_active_when_the_disk_of_the_active_one_dies(
    cluster: Cluster, kind: str
) -> None:
    active = cluster.active_controller

    with active.log_dir.fails(kind) as fault:
        assert_serves(cluster)
        if kind == "eio":
            fault.wait_detected(MOVED_DEADLINE_S)
            assert_serves(cluster)


@pytest.mark.parametrize(("kind", "details"), [("slow", {"delay": "2s"}), ("hang", {})])
def test_another_controller_is_active_when_the_disk_of_the_active_one_is_slow(
    cluster: Cluster, kind: str, details: dict[str, Any]
) -> None:
    active = cluster.active_controller

    with active.log_dir.fails(kind, calls="sync", **details):
        # The two others commit without it, so nothing waits for its disk.
        assert_serves(cluster)
        wait_for("another active controller", lambda: is_led_without(cluster, active))
        assert_serves(cluster)
    wait_for("a controller whose disk is well", lambda: are_all_heard(cluster))

    assert active.is_running


def is_led_without(cluster: Cluster, controller: Controller) -> bool:
    return any(each.is_active for each in cluster.controllers if each.id != controller.id)


@pytest.mark.parametrize(("kind", "details"), [("slow", {"delay": "2s"}), ("hang", {})])
def test_a_standby_with_a_slow_disk_changes_nothing(
    cluster: Cluster, kind: str, details: dict[str, Any]
) -> None:
    active = cluster.active_controller

    with standbys(cluster)[0].log_dir.fails(kind, calls="sync", **details):
        assert_serves(cluster)
        assert active.is_active


def test_the_active_controller_is_cut_off_from_each_of_the_others(cluster: Cluster) -> None:
    active = cluster.active_controller

    with active.fails("cut") as fault:
        fault.wait_detected(MOVED_DEADLINE_S)
        assert active.is_running
        assert_serves(cluster)


def test_two_controllers_are_cut_off_from_each_other_alone(cluster: Cluster) -> None:
    active, (first, second) = cluster.active_controller, standbys(cluster)

    with first.fails("cut", from_=f"controller-{second.id}"):
        assert active.is_active
        assert_serves(cluster)


def test_a_broker_is_cut_off_from_one_controller_by_its_name(cluster: Cluster) -> None:
    active = cluster.active_controller

    with cluster.broker(1).fails("cut", from_=f"controller-{active.id}") as fault:
        wait_for("connections that are refused", lambda: fault.broken > 1)


def test_clients_are_not_connected_to_a_controller(cluster: Cluster) -> None:
    with pytest.raises(FaultError, match="clients are not connected to controller-100"):
        cluster.controller.fails("cut", from_="clients")


def test_it_is_told_which_controller_has_become_active(cluster: Cluster) -> None:
    active = cluster.active_controller
    word = f"controller-{active.id}"
    spec, target = opened.described(cluster.inner, "kill", word, {})

    with (
        detecting(cluster.inner, target) as watch,
        cluster.inner.faults.inject(spec, target) as made,
    ):
        assert isinstance(watch, DetectingOfController)
        seen = watch.wait(spec, made.injected_ns)

    assert seen is not None
    assert seen.what.startswith(f"controller-{cluster.active_controller.id} is active in epoch ")
    assert seen.by == QUORUM


def test_brokers_serve_without_one_of_three_controllers(cluster: Cluster) -> None:
    standbys(cluster)[0].kill()

    cluster.inner.wait_served()


def test_a_standby_that_is_killed_leaves_the_active_controller(cluster: Cluster) -> None:
    active, (standby, _) = cluster.active_controller, standbys(cluster)
    spec, target = opened.described(cluster.inner, "kill", f"controller-{standby.id}", {})

    with (
        detecting(cluster.inner, target) as watch,
        cluster.inner.faults.inject(spec, target) as made,
    ):
        assert watch.wait(spec, made.injected_ns) is None

    told = watch.not_detected(spec)
    assert (
        told == f"controller-{standby.id} was a standby: controller-{active.id} is the active one"
    )


@pytest.mark.jbod(brokers=1, disks=1, controllers=3)
def test_the_fixture_has_the_controllers_of_a_quorum(jbod_cluster: Cluster) -> None:
    before = jbod_cluster.active_controller
    assert [each.id for each in jbod_cluster.controllers] == [100, 101, 102]

    before.kill()
    assert jbod_cluster.active_controller.id != before.id
    before.start()

    jbod_cluster.wait_settled()
    assert not before.is_active
