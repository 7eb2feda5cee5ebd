"""Directories that vanish, return, are swapped, added or removed, between the starts and while
everything runs. After each step: nothing acknowledged is lost, and the metadata names the directory
that holds the replica.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition

from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.directory_id import LOST
from jbodlab.vocabulary.ids import BrokerId
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    assigned,
    directory_id,
    made,
    on_disk,
    partitions_in,
    wait_for,
)
from tests.cluster.invariants import Ledger
from tests.cluster.lab_cluster import run_to_end, set_property
from tests.cluster.scenes import Scene, Stage

pytestmark = pytest.mark.cluster

FOREIGN = ("lost+found", ".Trash-1000", "backup-2024")


def use_dirs(scene: Scene, broker: int, paths: list[Path]) -> None:
    set_property(scene.cluster.node(broker), "log.dirs", ",".join(map(str, paths)))


def replace_disk(cluster: Cluster, broker: int, path: Path) -> None:
    """A new empty disk, freshly formatted."""
    shutil.rmtree(path)
    path.mkdir()
    cluster.own(path)
    cluster.format([cluster.node(broker)])


def test_directories_that_changed_while_the_broker_was_down(stage: Stage) -> None:
    """Foreign entries, a directory that lost its id, and one at another path."""
    with stage.scene() as scene:
        cluster, ledger = scene.cluster, scene.topic(8)
        one, two, three, four = dirs = cluster.broker(2).paths
        assert cluster.node(2).stop() == 0
        for name in FOREIGN:
            (one / name).mkdir()
            (one / name / "notes.txt").write_text("not ours")
        (one / "README").write_text("not ours")
        meta = meta_properties.read(PosixFileSystem(), two)
        lines = (two / "meta.properties").read_text().splitlines()
        kept = [line for line in lines if not line.startswith("directory.id")]
        (two / "meta.properties").write_text("\n".join(kept) + "\n")
        cluster.own(two)
        elsewhere = three.rename(three.with_name("elsewhere"))
        use_dirs(scene, 2, [one, two, elsewhere, four])
        scene.start(2)
        scene.wait_all_in_sync()
        assert directory_id(two) != meta.directory_id
        assert directory_id(elsewhere) == scene.ids[three]
        ledger.produce()
        scene.check(ledger)
        for name in FOREIGN:
            assert (one / name / "notes.txt").read_text() == "not ours"

        assert cluster.node(2).stop() == 0
        elsewhere.rename(three)
        use_dirs(scene, 2, dirs)
        for name in FOREIGN:
            shutil.rmtree(one / name)
        (one / "README").unlink()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_removed_directory_is_made_up_for_only_when_none_is_offline(stage: Stage) -> None:
    """What is missing may lie in the one that is offline; later the removed disk is put back."""
    with stage.scene() as scene:
        cluster, ledger = scene.cluster, scene.topic(8)
        dirs = cluster.broker(2).paths
        assert cluster.node(2).stop() == 0
        removed = cluster.broker(2).log_dir_of(ledger.topic, 0).path
        touched = partitions_in(removed, ledger.topic)
        kept = [path for path in dirs if path != removed]
        broken = kept[1] / "meta.properties"
        use_dirs(scene, 2, kept)
        meta = broken.read_text()
        broken.write_text("version=7\n")
        scene.start(2)
        scene.wait_offline(2, kept[1])
        scene.let_all_act()
        for path in kept:
            assert not touched & partitions_in(path, ledger.topic)

        broken.write_text(meta)
        scene.restart(2)
        scene.wait_all_in_sync()
        assert touched <= set().union(*(partitions_in(path, ledger.topic) for path in kept))
        ids = {directory_id(path) for path in kept}
        assert set(assigned(cluster, 2, ledger.topic).values()) <= ids
        ledger.produce()
        scene.check(ledger)

        # An old copy of each of its replicas returns.
        use_dirs(scene, 2, dirs)
        scene.restart(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_empty_replacement_disk_never_leads_before_it_caught_up(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster = scene.cluster
        topic = scene.topic_at([[1, 2], [2, 1], [1, 2], [2, 1]])
        ledger = Ledger(cluster, topic, 4)
        ledger.produce()
        disk = cluster.broker(1).log_dir_of(topic, 0).path

        # Both are in sync: killed, replaced and back before anybody noticed.
        cluster.node(1).kill()
        replace_disk(cluster, 1, disk)
        scene.start(1)
        scene.wait_all_in_sync()
        scene.check(ledger)

        # Broker 1 is the last one in sync, and loses a disk with all that only it had.
        touched = partitions_in(disk, topic)
        assert touched
        assert cluster.node(2).stop() == 0
        wait_for("broker 1 alone", lambda: set(map(frozenset, isr(scene, topic).values())) == {ONE})
        assert cluster.node(1).stop() == 0
        replace_disk(cluster, 1, disk)
        cluster.node(1).start()
        cluster.node(2).start()
        cluster.wait_served()
        others = set(range(4)) - touched
        wait_for(
            "leaders of what was not lost",
            lambda: all(cluster.leaders(topic)[p] > 0 for p in others),
        )
        leaders = cluster.leaders(topic)
        assert {leaders[p] for p in touched} == {-1}, "an empty log must not lead"
        before = assigned(cluster, 1, topic)
        assert {before[p] for p in touched} == {LOST}

        # The operator lets broker 2 lead, which has all there was when it left.
        wanted = [TopicPartition(topic, p) for p in touched]
        cluster.admin().elect_leaders(ElectionType.UNCLEAN, wanted).result(30)
        scene.wait_all_in_sync()
        scene.check(ledger)


ONE = frozenset({1})


def isr(scene: Scene, topic: str) -> dict[int, tuple[int, ...]]:
    """The ISRs of a topic, as the controller has decided."""
    states = scene.cluster.image().topics.by_name[topic].partitions
    return {index: state.isr for index, state in states.items()}


def test_replica_removed_by_hand_costs_no_directory(stage: Stage) -> None:
    with stage.scene() as scene:
        cluster, ledger, doomed = scene.cluster, scene.topic(8), scene.topic(1)
        leader, path = scene.leader(ledger)
        others = partitions_in(path, ledger.topic) - {0}
        shutil.rmtree(path / f"{ledger.topic}-0")
        _, doomed_path = scene.leader(doomed)
        shutil.rmtree(doomed_path / f"{doomed.topic}-0")
        wait_for(
            "another broker leading",
            lambda: cluster.leaders(ledger.topic)[0] not in (leader, -1),
        )
        assert others
        assert all(leader in cluster.isr(ledger.topic)[p] for p in others)
        ledger.produce()
        # Deleting what is gone already is no failure either.
        scene.delete(doomed.topic)
        for broker in cluster.broker_ids:
            assert "went offline" not in scene.said(broker)

        scene.restart(leader)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_one_directory_becomes_many_on_a_cluster_with_data(stage: Stage) -> None:
    """Brokers with one, two and four directories in one cluster; in the end all have four."""
    with stage.scene() as scene:
        cluster = scene.cluster
        for broker, count in ((1, 1), (2, 2)):
            use_dirs(scene, broker, cluster.broker(broker).paths[:count])
        scene.restart(1, 2)
        ledger = scene.topic(9)
        scene.check(ledger)
        for node in cluster.brokers:
            assert len(scene.registered(node.id)) == len(node.configured_dirs)
        # Only what is dead is missing.
        scene.break_and_wait("chmod000", 2, cluster.broker(2).paths[1])
        ledger.produce()
        scene.check(ledger)
        # The only directory of a broker ends it.
        scene.faults.make("chmod000", cluster.broker(1).paths[0])
        assert cluster.node(1).wait_ended() == 1
        ledger.produce()
        scene.check(ledger)
        assert not cluster.image().cluster.brokers[BrokerId(2)].fenced

        scene.faults.heal_all()
        assert cluster.node(2).stop() == 0
        for broker in (1, 2):
            use_dirs(scene, broker, cluster.broker(broker).paths)
            cluster.node(broker).start()
        cluster.wait_served()
        scene.wait_all_in_sync()
        spread = scene.topic(12)
        for broker in cluster.broker_ids:
            assert len(set(on_disk(cluster, broker, spread.topic).values())) > 1
        ledger.produce()
        scene.check(ledger, spread)


def test_the_same_replica_twice(stage: Stage) -> None:
    """As a swap of directories may leave it: the one that the metadata want is used, as nothing is
    in the other that it has not.
    """
    with stage.scene() as scene:
        cluster, ledger = scene.cluster, scene.topic(4)
        assert cluster.node(2).stop() == 0
        holder = cluster.broker(2).log_dir_of(ledger.topic, 0).path
        second = next(path for path in cluster.broker(2).paths if path != holder)
        shutil.copytree(holder / f"{ledger.topic}-0", second / f"{ledger.topic}-0")
        cluster.own(second)
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)
        assert cluster.broker(2).log_dir_of(ledger.topic, 0).path == holder


def test_starts_that_end_with_one_line(cluster_root: Path) -> None:
    cluster = made(cluster_root, brokers=1)
    one, two, three = cluster.broker(1).paths
    link = one.parent / "link"
    link.symlink_to(one)
    cases = {
        f"{one},{two},{one}/": "Duplicate log directory found",
        f"{one},{two},{link}": "Duplicate log directory found",
    }
    for log_dirs, text in cases.items():
        set_property(cluster.node(1), "log.dirs", log_dirs)
        code, line = run_to_end(cluster.node(1))
        assert (code, text in line) == (1, True), line
    set_property(cluster.node(1), "log.dirs", f"{one},{two},{three}")
    metadata = cluster.node(1).metadata_dir / "meta.properties"
    good = metadata.read_text()
    metadata.write_text("version=7\n")
    code, line = run_to_end(cluster.node(1))
    assert code == 1
    assert "Encountered I/O error in metadata log directory" in line
    metadata.write_text(good)
    for path in (one, two, three):
        (path / "meta.properties").write_text("version=7\n")
    code, line = run_to_end(cluster.node(1))
    assert code == 1
    assert "none of the specified log dirs" in line


@pytest.mark.parametrize("kind", ["chmod000", "delete"])
def test_controller_without_its_directory_stops(kind: str, stage: Stage) -> None:
    with stage.scene() as scene:
        controller = scene.cluster.node(CONTROLLER_ID)
        scene.faults.make(kind, controller.metadata_dir)
        assert controller.wait_ended() == 1
        lines = [line for line in scene.said(CONTROLLER_ID).splitlines() if line.strip()]
        assert str(controller.metadata_dir) in lines[-1]
        assert all(broker.is_running for broker in scene.cluster.brokers)
