"""A directory that failed is repaired and comes back online in the running broker, in every way in
which that can go right or wrong. Nothing that was acknowledged is lost.
"""

from __future__ import annotations

import shutil
import time

import pytest
from confluent_kafka import ElectionType

from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirResponse
from jbodlab.vocabulary.error_code import ErrorCode
from tests.cluster.harness import Load, directory_id, partitions_in, wait_for
from tests.cluster.scenes import Scene

pytestmark = pytest.mark.cluster

PARTITIONS = 6


def error_of(response: ReviveLogDirResponse) -> ErrorCode:
    return ErrorCode(response.error_code.value)


@pytest.mark.parametrize("kind", ["chmod000", "readonly", "file"])
def test_repaired_directory_comes_back_under_load(kind: str, scene: Scene) -> None:
    cluster = scene.cluster
    ledger = scene.topic(PARTITIONS, records=0, min_insync_replicas="2")
    with Load(cluster.bootstrap, ledger.topic) as load:
        broker, path = scene.leader(ledger)
        held = partitions_in(path, ledger.topic)

        scene.break_and_wait(kind, broker, path)
        still_broken = scene.revive(broker, path)
        assert error_of(still_broken) is ErrorCode.KAFKA_STORAGE_ERROR
        assert "stays offline" in (still_broken.error_message or "")
        assert still_broken.directory_id is None

        scene.faults.heal(path)
        revived = scene.revive(broker, path)
        assert error_of(revived) is ErrorCode.NONE, revived.error_message
        assert revived.directory_id == scene.ids[path]
        assert revived.replicas == len(held)
        scene.wait_all_in_sync()
        # A record that is written while it leads again counts too.
        wait_for("the returned replica leading", lambda: leads(scene, broker, ledger.topic, held))
        moment = time.monotonic()
        wait_for("acknowledgements", lambda: load.acknowledged_after(moment, min(held)))
    assert not load.errors
    scene.check(load)
    assert cluster.node(broker).is_running
    assert "is back online with" in scene.said(broker)


def leads(scene: Scene, broker: int, topic: str, partitions: set[int]) -> bool:
    """Have the preferred leaders elected; returns whether the broker leads one of these."""
    scene.cluster.admin().elect_leaders(ElectionType.PREFERRED).result(10)
    leaders = scene.cluster.leaders(topic)
    return any(leaders[partition] == broker for partition in partitions)


def test_replaced_disk_is_a_new_directory_that_catches_up_first(scene: Scene) -> None:
    cluster = scene.cluster
    ledger = scene.topic(PARTITIONS, records=0, min_insync_replicas="2")
    with Load(cluster.bootstrap, ledger.topic) as load:
        broker, path = scene.leader(ledger)
        kept = path.with_name("kept")
        path.rename(kept)
        path.mkdir()
        cluster.own(path)
        scene.wait_offline(broker, path)
        assert "format" in (scene.revive(broker, path).error_message or "")
        cluster.format([cluster.node(broker)])
        assert directory_id(path) != scene.ids[path]

        revived = scene.revive(broker, path)
        assert error_of(revived) is ErrorCode.NONE, revived.error_message
        assert (revived.directory_id, revived.replicas) == (directory_id(path), 0)
        scene.wait_all_in_sync()
        assert scene.ids[path] not in scene.registered(broker)
    assert not load.errors
    scene.check(load)
    shutil.rmtree(kept)
