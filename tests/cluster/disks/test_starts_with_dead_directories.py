"""Starts of brokers on real directories of which one is broken, in every way in which they break.

Which orders of failures and starts come out well is the simulation's to show (`sick_restart`,
`unheard`, `swapped_disks`, `changed_while_away`); here it is that a real directory breaks alike.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from jbodlab.storage.directory import names
from tests.cluster.disk_faults import KINDS
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    as_servers,
    assigned,
    made,
    partitions_in,
    script,
    wait_for,
)
from tests.cluster.lab_cluster import set_property
from tests.cluster.scenes import SETTINGS, Scene, some

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("kind", some(KINDS, "chmod000", "chmod555", "empty", "loop"))
def test_start_with_a_dead_directory(kind: str, scene: Scene) -> None:
    ledger = scene.topic(8, min_insync_replicas="1")
    path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
    assert scene.cluster.node(2).stop() == 0
    scene.faults.make(kind, path)
    ledger.produce()
    scene.start(2)
    scene.wait_offline(2, path)
    ledger.produce()
    scene.check(ledger)
    assert f"{path}" in scene.said(2)
    # New topics go elsewhere; what lies there is not made a second time.
    other = scene.topic(6)
    scene.check(ledger, other)
    # A second start finds the same.
    scene.restart(2)
    scene.wait_offline(2, path)
    scene.check(ledger, other)
    if kind == "empty":
        assert list(path.iterdir()) == [], "the mount point of a disk stays as it is"
    # A directory that was dead at the start can be revived as well.
    scene.faults.heal(path)
    revived = scene.revive(2, path)
    assert not revived.error_message
    assert revived.replicas == len(partitions_in(path, ledger.topic))
    scene.wait_all_in_sync()
    scene.check(ledger, other)


def test_the_order_of_log_dirs_and_their_spelling_mean_nothing(scene: Scene) -> None:
    node, dirs = scene.cluster.node(2), scene.cluster.broker(2).paths
    ledger = scene.topic(8, min_insync_replicas="3")
    before = assigned(scene.cluster, 2, ledger.topic)
    link = dirs[0].with_name("link")
    link.symlink_to(dirs[0])
    spelled = [f"{dirs[3]}/", dirs[2], f"{dirs[1].parent}/./data", link]
    set_property(node, "log.dirs", ",".join(map(str, spelled)))
    scene.restart(2)
    ledger.produce()
    scene.wait_all_in_sync()
    scene.check(ledger)
    assert assigned(scene.cluster, 2, ledger.topic) == before
    set_property(node, "log.dirs", ",".join(map(str, dirs)))
    scene.restart(2)
    link.unlink()


def test_crash_while_logs_are_loaded_counts_as_a_crash_kafka_10471(scene: Scene) -> None:
    """There the marker of a clean end outlived a crash during the start, and the next start trusted
    logs that were not whole; here the marker is gone before the first log is opened.
    """
    ledger = scene.topic(8, min_insync_replicas="1")
    assert scene.cluster.node(2).stop() == 0
    markers = [path / names.CLEAN_SHUTDOWN_FILE for path in scene.cluster.broker(2).paths]
    assert all(marker.exists() for marker in markers)
    scene.cluster.node(2).start()
    wait_for("the first marker gone", lambda: not all(m.exists() for m in markers))
    scene.cluster.node(2).kill()
    ledger.produce()
    scene.start(2)
    scene.wait_all_in_sync()
    scene.check(ledger)


def test_directory_that_fails_while_it_is_loaded_leaves_no_marker_kafka_13773(scene: Scene) -> None:
    """There an I/O error during recovery stopped the broker, which then marked the directory as
    clean; here the broker serves with the others, and the marker does not come back.
    """
    ledger = scene.topic(8, min_insync_replicas="1")
    path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
    scene.cluster.node(2).kill()
    folder = path / f"{ledger.topic}-0"
    (folder / "leader-epoch-checkpoint").unlink()
    folder.chmod(0o555)
    try:
        scene.start(2)
        scene.wait_offline(2, path)
        ledger.produce()
        scene.check(ledger)
        assert scene.cluster.node(2).stop() == 0
        assert not (path / names.CLEAN_SHUTDOWN_FILE).exists()
    finally:
        folder.chmod(0o755)
    scene.start(2)
    scene.wait_all_in_sync()
    scene.check(ledger)


def test_topics_work_with_the_oldest_version_that_knows_directories_kafka_16162(
    cluster_root: Path,
) -> None:
    """There new topics had no leader, because brokers had registered no directories (KAFKA-16606:
    and nothing said that several directories need a newer version); here an older version is
    refused, and the oldest that knows directories serves.
    """
    cluster = made(cluster_root, brokers=2, dirs=3, settings=SETTINGS)
    meta = cluster.node(CONTROLLER_ID).metadata_dir
    shutil.rmtree(meta)
    meta.mkdir()
    cluster.own(meta)
    refused = format_controller(cluster, "3.6")
    assert refused.returncode == 1
    assert "too old" in refused.stderr
    assert format_controller(cluster, "3.7-IV2").returncode == 0
    try:
        cluster.start()
        scene = Scene(cluster)
        ledger = scene.topic(6, 2, min_insync_replicas="1")
        scene.check(ledger)
        leader, path = scene.leader(ledger)
        scene.break_and_wait("chmod000", leader, path)
        ledger.produce()
        scene.check(ledger)
    finally:
        cluster.close()


def format_controller(cluster: Cluster, release: str) -> subprocess.CompletedProcess[str]:
    """Format the controller for an older release."""
    settings = str(cluster.node(CONTROLLER_ID).properties_file)
    words = ("format", "-t", cluster.id, "-r", release, "-c", settings)
    return as_servers(cluster, [*script("jbod-storage"), *words])
