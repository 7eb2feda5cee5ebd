"""State that a test may rely on when it has healed a broker, or started one again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.testing.clusters import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, disks=2) as cluster:
        yield cluster


def test_a_broker_that_was_healed_serves(cluster: Cluster) -> None:
    broker = cluster.broker(1)

    with broker.fails("kill") as fault:
        fault.wait_detected()

    assert [log_dir.state for log_dir in broker.log_dirs] == ["online", "online"]


def test_a_broker_is_started_while_another_one_is_dead(cluster: Cluster) -> None:
    for number in (1, 2):
        cluster.broker(number).kill()

    cluster.broker(1).start()

    assert cluster.broker(1).log_dir(1).state == "online"
    assert not cluster.broker(2).is_running
    cluster.heal()


def test_a_killed_broker_is_healed_while_another_one_is_dead(cluster: Cluster) -> None:
    with cluster.broker(1).fails("kill"):
        cluster.broker(2).kill()

    assert cluster.broker(1).log_dir(1).state == "online"
    cluster.heal()
