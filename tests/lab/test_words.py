"""Words for brokers and directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import opened
from lab.cluster import Cluster, ClusterSpec, layout
from lab.commands import running
from lab.errors import LabError
from lab.machine.processes import own_user


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    state = layout.plan("x", tmp_path, "id", own_user(), (1, 2, 3), ClusterSpec(brokers=2, disks=2))
    return Cluster(state)


@pytest.mark.parametrize("word", ["broker-2/1", "2/1", "broker-2/dir-1"])
def test_a_directory_is_named_by_broker_and_number(cluster: Cluster, word: str) -> None:
    broker, directory = opened.target(cluster, word)

    assert (broker.id, directory) == (2, broker.log_dirs[0])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("broker-3", r"unknown broker-3 \(brokers: broker-1, broker-2\)"),
        ("broker-1/3", "broker-1 has the directories 1 to 2, not 3"),
        ("broker-1/0", "broker-1 has the directories 1 to 2, not 0"),
        ("controller-7", r"unknown controller-7 \(controllers: controller-100\)"),
        ("controller/2", "controller-100 has the directories 1 to 1, not 2"),
        ("disk-1", "such as broker-1, broker-1/2 or controller-100/1, got 'disk-1'"),
    ],
)
def test_a_target_that_is_none_is_named(cluster: Cluster, word: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        opened.target(cluster, word)


def test_nodes_are_named_alone_or_all_together(cluster: Cluster) -> None:
    assert [node.id for node in opened.nodes(cluster, ["2", "controller"])] == [2, 100]
    assert [node.id for node in opened.nodes(cluster, ["all"])] == [100, 1, 2]
    with pytest.raises(LabError, match="expected a broker or controller, got the directory"):
        opened.nodes(cluster, ["broker-1/2"])


def test_gaps_are_measured_with_messages_that_stand_closely() -> None:
    """As closely as a figure within 50 ms needs, where there are not too many partitions."""
    assert running.rate(2) == 80
    assert 1 / (running.rate(18) / 18) < 0.05
    assert running.rate(400) == running.RATE_MAX
