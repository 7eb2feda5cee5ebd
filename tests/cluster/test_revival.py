"""A directory that failed is repaired and comes back online in the running broker, in every way in
which that can go right or wrong. Nothing that was acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import ElectionType

from jbodlab.kafka_wire.revive_log_dir import ReviveLogDirResponse
from jbodlab.peers.admin_requests import revive_log_dir
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from tests.cluster.harness import (
    CONTROLLER_ID,
    Load,
    directory_id,
    partitions_in,
    wait_for,
)
from tests.cluster.invariants import Ledger
from tests.cluster.scenes import Scene, Stage

pytestmark = pytest.mark.cluster

PARTITIONS = 6


def error_of(response: ReviveLogDirResponse) -> ErrorCode:
    return ErrorCode(response.error_code.value)


@pytest.mark.parametrize("kind", ["chmod000", "readonly", "file"])
def test_repaired_directory_comes_back_under_load(kind: str, stage: Stage) -> None:
    with stage.scene() as scene:
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
            # What is written while it leads again counts too.
            wait_for(
                "the returned replica leading", lambda: leads(scene, broker, ledger.topic, held)
            )
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


def test_only_replica_leads_again_with_all_its_records(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster, ledger = scene.cluster, scene.topic(4, 1)
        broker, path = scene.leader(ledger)

        for _ in range(2):
            scene.break_and_wait("chmod000", broker, path)
            wait_for("no leader", lambda: cluster.leaders(ledger.topic)[0] == -1)
            scene.faults.heal(path)
            # The first who consumed has the topic of committed offsets made, whenever that ends;
            # here it ends no more.
            topics = (ledger.topic, GROUP_METADATA_TOPIC)
            held = sum(len(partitions_in(path, topic)) for topic in topics)
            assert scene.revive(broker, path).replicas == held
            scene.wait_all_in_sync()
            scene.check(ledger)

        # The restart of a broker with a revived directory is like any other.
        scene.restart(broker)
        scene.check(ledger)
        cluster.node(broker).kill()
        scene.start(broker)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_what_cannot_be_revived_is_refused_and_nothing_changes(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster, ledger = scene.cluster, scene.topic(PARTITIONS)
        one, two, *_ = cluster.broker(2).paths

        unknown = scene.revive(2, Path("/nowhere"))
        assert error_of(unknown) is ErrorCode.LOG_DIR_NOT_FOUND
        assert str(one) in (unknown.error_message or "")
        separate = scene.revive(2, cluster.node(2).metadata_dir)
        assert error_of(separate) is ErrorCode.LOG_DIR_NOT_FOUND
        online = scene.revive(2, one)
        assert error_of(online) is ErrorCode.INVALID_REQUEST
        assert "is already online" in (online.error_message or "")

        kept = one.with_name("kept")
        scene.break_and_wait("chmod000", 2, one)
        scene.faults.heal(one)
        before = sorted(path.name for path in one.iterdir())
        meta = (one / "meta.properties").read_text()
        for content, reason in [
            ("version=7\n", "Unknown meta.properties version number 7"),
            (meta.replace(cluster.id, "c" * 22), "Invalid cluster.id"),
            (meta.replace("node.id=2", "node.id=1"), "Stored node id 1"),
            ((two / "meta.properties").read_text(), "Duplicate directory ID"),
        ]:
            (one / "meta.properties").write_text(content)
            refused = scene.revive(2, one)
            assert error_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
            assert reason in (refused.error_message or ""), refused.error_message
        (one / "meta.properties").write_text(meta)

        one.rename(kept)
        for make, reason in [
            (lambda: None, "No such file"),
            (lambda: one.write_text("a file"), "Not a directory"),
            (lambda: (one.unlink(), one.mkdir()), "jbod-storage format --ignore-formatted"),
            (lambda: (one.rmdir(), one.symlink_to(two)), "Duplicate log directory"),
        ]:
            make()
            refused = scene.revive(2, one)
            assert error_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
            assert reason in (refused.error_message or ""), refused.error_message
        one.unlink()
        kept.rename(one)

        assert sorted(path.name for path in one.iterdir()) == before
        assert cluster.node(2).is_running
        scene.check(ledger)
        assert error_of(scene.revive(2, one)) is ErrorCode.NONE
        scene.wait_all_in_sync()


def test_two_revivals_at_once_and_a_second_failure(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster, ledger = scene.cluster, scene.topic(PARTITIONS, records=0)
        with Load(cluster.bootstrap, ledger.topic) as load:
            path = cluster.broker(2).log_dir_of(ledger.topic, 0).path
            for _ in range(2):
                scene.break_and_wait("chmod000", 2, path)
                scene.faults.heal(path)

                async def both() -> list[ReviveLogDirResponse]:
                    port = cluster.node(2).port
                    calls = [revive_log_dir("127.0.0.1", port, str(path), 60) for _ in range(2)]
                    return await asyncio.gather(*calls)

                answers = asyncio.run(both())
                codes = sorted(error_of(each) for each in answers)
                assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
                loser = next(each for each in answers if error_of(each) is not ErrorCode.NONE)
                assert "is already being revived" in (loser.error_message or "")
                scene.wait_all_in_sync()
        assert not load.errors
        scene.check(load)


def test_replaced_disk_is_a_new_directory_that_catches_up_first(stage: Stage) -> None:
    with stage.scene() as scene:
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


def test_replaced_disk_of_the_last_replica_in_sync_never_leads(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster, topic = scene.cluster, scene.topic_at([[1, 2], [2, 1]], min_insync_replicas="1")
        ledger = Ledger(cluster, topic, 2)
        ledger.produce()
        cluster.node(1).kill()
        wait_for("broker 2 alone", lambda: state_of(scene, topic) == (2, (2,)))
        ledger.produce()
        path = cluster.broker(2).log_dir_of(topic, 0).path
        scene.break_and_wait("chmod000", 2, path)
        scene.faults.heal(path)
        kept = path.rename(path.with_name("kept"))
        path.mkdir()
        cluster.own(path)
        cluster.format([cluster.node(2)])
        assert error_of(scene.revive(2, path)) is ErrorCode.NONE

        scene.start(1)
        scene.let_all_act()
        # Neither has all that was acknowledged: one was away, one is empty.
        assert state_of(scene, topic) == (-1, (2,))

        # The old disk is found again.
        replaced = directory_id(path)
        shutil.rmtree(path)
        wait_for("it to fail", lambda: replaced not in scene.registered(2))
        kept.rename(path)
        wait_for("revived", lambda: error_of(scene.revive(2, path)) is ErrorCode.NONE)
        scene.wait_all_in_sync()
        assert 2 in cluster.isr(topic)[0]
        scene.check(ledger)


def state_of(scene: Scene, topic: str) -> tuple[int, tuple[int, ...]]:
    """Leader and ISR of partition 0, as the controller has decided."""
    state = scene.cluster.image().topics.by_name[topic].partitions[0]
    return state.leader, state.isr


def test_what_the_metadata_placed_elsewhere_meanwhile_stays_there(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        kept, gone, again = (scene.topic(8) for _ in range(3))
        path = cluster.broker(2).log_dir_of(kept.topic, 0).path
        held = {each.topic: partitions_in(path, each.topic) for each in (gone, again)}
        assert all(held.values())
        scene.break_and_wait("chmod000", 2, path)
        scene.delete(gone.topic, again.topic)
        scene.create(again.topic, 4, 3)
        scene.faults.heal(path)

        assert error_of(scene.revive(2, path)) is ErrorCode.NONE
        scene.wait_all_in_sync()
        scene.check(kept)
        strays = {
            entry.name.partition(".")[0]
            for entry in path.iterdir()
            if entry.name.endswith("-stray")
        }
        for topic, partitions in held.items():
            assert {f"{topic}-{partition}" for partition in partitions} <= strays


def test_controller_may_be_away_when_a_directory_comes_back(stage: Stage) -> None:
    """It knew of the first failure, but not of the second one, which must be told first."""
    with stage.scene() as scene:
        cluster, ledger = scene.cluster, scene.topic(8)
        first, second, *_ = cluster.broker(2).paths
        scene.break_and_wait("chmod000", 2, first)
        scene.check(ledger)
        cluster.node(CONTROLLER_ID).kill()

        scene.faults.heal(first)
        assert error_of(scene.revive(2, first)) is ErrorCode.NONE
        scene.faults.make("chmod000", second)
        wait_for("the failure", lambda: f"{second} went offline" in scene.said(2))
        scene.faults.heal(second)
        with ThreadPoolExecutor(1) as aside:
            untold = aside.submit(scene.revive, 2, second)
            wait_for("the order", lambda: f"reviving log directory {second}" in scene.said(2))
            cluster.node(CONTROLLER_ID).start()
            wait_for("the first in the registration", lambda: is_registered(scene, first))
            answer = untold.result()
        if error_of(answer) is not ErrorCode.NONE:
            # The controller needed longer for its start than the order waits.
            assert error_of(answer) is ErrorCode.REQUEST_TIMED_OUT
            assert error_of(scene.revive(2, second)) is ErrorCode.NONE
        wait_for("the second in the registration", lambda: is_registered(scene, second))
        scene.wait_all_in_sync()
        scene.check(ledger)


def is_registered(scene: Scene, path: Path) -> bool:
    return scene.ids[path] in scene.registered(2)
