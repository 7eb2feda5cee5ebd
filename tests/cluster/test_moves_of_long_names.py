"""Moves of a topic with so long a name that the folder which a move leaves in its source has a cut
one, beside a topic that has just the name that is left. Nothing is told by the name that the topic
id in `partition.metadata` tells otherwise.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jbodlab.peers.admin_requests import revive_log_dir
from jbodlab.vocabulary.error_code import ErrorCode
from lab.cluster.folders import make_folder, remove_folder
from tests.cluster.harness import Cluster, made, read_all, wait_for
from tests.cluster.invariants import Ledger
from tests.cluster.moving import alter, wait_settled

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here"),
]

BROKER = 1
RECORDS = 2_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    root = make_folder()
    cluster = made(root / "cluster", brokers=1, dirs=2)
    try:
        cluster.broker(BROKER).preload()
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        remove_folder(root)


def filled(cluster: Cluster, name: str, records: int) -> Ledger:
    cluster.create_topic(name, 1, 1)
    ledger = Ledger(cluster, name, 1)
    ledger.produce(records)
    return ledger


def lie_in(cluster: Cluster, path: Path, *topics: str) -> None:
    """Have all of some replicas in one directory, and nothing of them in another."""
    for topic in topics:
        if cluster.broker(BROKER).log_dir_of(topic, 0).path != path:
            assert alter(cluster, BROKER, {(topic, 0): path}) == {ErrorCode.NONE}
        wait_settled(cluster, BROKER, topic)
        wait_for(
            f"nothing of {topic} elsewhere",
            lambda t=topic: all(
                each == path or not list(each.glob(f"{t[:200]}*-stray"))
                for each in cluster.broker(BROKER).paths
            ),
        )


def lose(folder: Path, pattern: str) -> None:
    """Let files be as empty as a power loss leaves what was not synced."""
    for file in folder.glob(pattern):
        os.truncate(file, 0)


@pytest.mark.parametrize("ends", ["with the power", "with its disk"])
def test_what_a_move_has_left_is_found_by_the_topic_id_where_its_name_is_cut(
    ends: str, cluster: Cluster
) -> None:
    broker = cluster.broker(BROKER)
    source, target = broker.paths
    name = "t" * 212
    ledger = filled(cluster, name, RECORDS)
    # The name of the folder that is left has room for so many characters of the topic.
    other = filled(cluster, name[:209], 300)
    lie_in(cluster, source, name, other.topic)
    disk = cluster.log_dir_at(target)
    if ends == "with the power":
        fault = disk.fails("hang", calls="sync", files="*.log")
    else:
        fault = disk.fails("eio", calls="sync", files="*.log")

    assert alter(cluster, BROKER, {(name, 0): target}) == {ErrorCode.NONE}
    wait_for("a sync of the copy that does not end well", lambda: fault.broken.count > 0)
    if ends == "with the power":
        assert [each.name[:209] for each in source.glob("*-stray")] == [other.topic]
        broker.kill()
        lose(target / f"{name}-0", "*")
        fault.heal()
        broker.start()
        cluster.wait_served(broker)
    else:
        wait_for("the target offline", lambda: f"{target} went offline" in broker.output())
        lose(target / f"{name}-0", "*.log")
        fault.heal()
        answer = asyncio.run(revive_log_dir("127.0.0.1", broker.port, str(target), 30))
        assert not answer.error_code, answer

    cluster.wait_leaders(name)
    for each, count in ((ledger, RECORDS), (other, 300)):
        found = read_all(cluster.bootstrap, each.topic, 1)[0]
        assert [(offset, int(value)) for offset, value in found] == [
            (offset, offset) for offset in range(count)
        ]
    assert {f"{name}-0", f"{other.topic}-0"} <= {each.name for each in source.iterdir()}
