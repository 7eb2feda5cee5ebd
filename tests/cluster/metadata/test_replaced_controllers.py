"""A controller whose disk died gets an empty one and has all that was acknowledged again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jbodlab.vocabulary import kafka_uuid
from lab.cluster import Cluster as Inner
from lab.cluster import ClusterSpec, membership, wait_for
from lab.cluster.node import Node
from lab.errors import LabError
from lab.testing.clusters import Cluster
from tests.cluster.harness import directory_id
from tests.cluster.mixed_quorum import MetadataDir

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

DEADLINE_S = 60.0


@pytest.fixture(params=["", "sasl_ssl"], ids=["open", "closed"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=2, disks=1, controllers=3, calls=True, security=request.param) as started:
        yield started


def voters(cluster: Cluster) -> dict[int, str]:
    """Directories of the voters that the log names."""
    found = wait_for("an active controller", cluster.inner.quorum)
    return {each: kafka_uuid.to_text(its) for each, its in found.directory_ids.items()}


def of_disk(node: Node) -> str:
    return kafka_uuid.to_text(directory_id(node.metadata_dir))


def dies(node: Node) -> None:
    """Break every call to its directory; the process ends by itself."""
    node.log_dir(1).fails("eio")
    assert node.wait_ended(DEADLINE_S) != 0


def has(node: Node, topics: list[str]) -> bool:
    return set(topics) <= set(MetadataDir(node).image().topics.by_name)


def test_a_controller_whose_disk_died_votes_again_with_an_empty_one(cluster: Cluster) -> None:
    inner, topics = cluster.inner, [cluster.new_topic(partitions=1, replicas=2)]
    processes = [broker.state.process for broker in inner.brokers]

    def replaced(node: Node) -> str:
        former = of_disk(node)
        dies(node)
        topics.append(cluster.new_topic(partitions=1, replicas=2))
        new = membership.replace_disk(inner, node)
        assert new == of_disk(node) != former
        wait_for("all that was acknowledged", lambda: has(node, topics), DEADLINE_S)
        return new

    # Fixed voters have no directories, so it is the same one.
    replaced(inner.active_controller())
    assert voters(cluster) == {}

    # One that comes and goes has the log name the voters, by their directories.
    membership.remove(inner, membership.add(inner))
    before = voters(cluster)
    assert before == {node.id: of_disk(node) for node in inner.controllers}
    first = inner.active_controller()
    new = replaced(first)
    assert voters(cluster) == before | {first.id: new}

    # It is needed for a majority now.
    other = inner.active_controller()
    other.kill()
    topics.append(cluster.new_topic(partitions=1, replicas=2))
    other.start()
    for node in inner.controllers:
        wait_for("all that was acknowledged", lambda node=node: has(node, topics), DEADLINE_S)  # type: ignore[misc]
    assert [broker.state.process for broker in inner.brokers] == processes


def test_nothing_is_deleted_where_nobody_else_leads(cluster: Cluster) -> None:
    inner = cluster.inner
    first, second, _ = inner.controllers
    second.kill()
    before, end = of_disk(first), membership.DEADLINE_S
    membership.DEADLINE_S = 5.0
    try:
        with pytest.raises(AssertionError, match=r"without controller|active controller"):
            membership.replace_disk(inner, first)
    finally:
        membership.DEADLINE_S = end

    assert of_disk(first) == before
    assert first.is_running
    second.start()
    cluster.new_topic(partitions=1, replicas=2)


def test_the_only_controller_has_no_other_log_to_take(tmp_path: Path) -> None:
    inner = Inner.plan(tmp_path / "cluster", ClusterSpec(brokers=1, disks=1))
    with pytest.raises(LabError, match=re.escape("nobody else has its log")):
        membership.replace_disk(inner, inner.controller)
    inner.close()
