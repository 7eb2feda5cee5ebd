"""Bugs of directories in Apache Kafka that show when a broker starts, by their numbers; see
test_known_jbod_bugs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from jbodlab.storage.directory import names
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    as_servers,
    made,
    script,
    wait_for,
)
from tests.cluster.scenes import SETTINGS, Scene, Stage, some

pytestmark = pytest.mark.cluster


# Starting


def test_directory_whose_path_leads_nowhere_does_not_stop_the_start_kafka_6697(
    stage: Stage,
) -> None:
    """There a path that could not be resolved ended the whole broker; here the others serve."""
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.broker(2).paths[1]
        assert scene.cluster.node(2).stop() == 0
        scene.faults.make("loop", path)
        scene.start(2)
        scene.wait_offline(2, path)
        ledger.produce()
        scene.check(ledger)


def test_directory_that_cannot_be_locked_does_not_stop_the_start_kafka_17310(
    stage: Stage,
) -> None:
    """There locking a directory that had gone offline a moment before ended the broker; here it
    starts with the others.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.broker(2).paths[0]
        assert scene.cluster.node(2).stop() == 0
        # What is there is only read; `.lock` cannot be made.
        scene.faults.make("readonly", path)
        scene.start(2)
        scene.wait_offline(2, path)
        ledger.produce()
        scene.check(ledger)


def test_replica_without_partition_metadata_does_not_stop_the_start_kafka_16814(
    stage: Stage,
) -> None:
    """There a missing `partition.metadata` ended the start; here that log is put aside and the
    replica is fetched anew.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4, min_insync_replicas="1")
        scene.cluster.node(2).kill()
        path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
        (path / f"{ledger.topic}-0" / names.PARTITION_METADATA_FILE).unlink()
        ledger.produce()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_crash_while_logs_are_loaded_counts_as_a_crash_kafka_10471(stage: Stage) -> None:
    """There the marker of a clean end outlived a crash during the start, and the next start trusted
    logs that were not whole; here the marker is gone before the first log is opened.
    """
    with stage.scene() as scene:
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


def test_start_that_fails_leaves_no_marker_of_a_clean_end_kafka_15375(stage: Stage) -> None:
    """There a broker that was stopped before its logs were loaded marked its directories as cleanly
    shut down; here what crashed stays marked so.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        scene.cluster.node(2).kill()
        # Without a controller it never comes to load its logs.
        scene.cluster.node(CONTROLLER_ID).kill()
        scene.start_until(2, "registers")
        assert scene.cluster.node(2).stop() == 0
        for path in scene.cluster.broker(2).paths:
            assert not (path / names.CLEAN_SHUTDOWN_FILE).exists()
        scene.cluster.node(CONTROLLER_ID).start()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_log_that_cannot_be_closed_leaves_no_marker_kafka_19221(stage: Stage) -> None:
    """There an I/O error on closing a segment was swallowed and the directory marked as clean; here
    the next start recovers it.
    """
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
        folder = path / f"{ledger.topic}-0"
        folder.chmod(0o555)
        try:
            assert scene.cluster.node(2).stop() == 0
        finally:
            folder.chmod(0o755)
        assert not (path / names.CLEAN_SHUTDOWN_FILE).exists()
        others = [other for other in scene.cluster.broker(2).paths if other != path]
        assert all((other / names.CLEAN_SHUTDOWN_FILE).exists() for other in others)
        ledger.produce()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_directory_that_fails_while_it_is_loaded_leaves_no_marker_kafka_13773(stage: Stage) -> None:
    """There an I/O error during recovery stopped the broker, which then marked the directory as
    clean; here the broker serves with the others, and the marker does not come back.
    """
    with stage.scene() as scene:
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


def test_checkpoint_that_cannot_be_written_blames_its_directory_kafka_15490(stage: Stage) -> None:
    """There the failure named the checkpoint's own path, which is no directory, and nothing went
    offline; here it is the directory that holds it.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4, min_insync_replicas="1")
        broker, path = scene.leader(ledger)
        file = path / names.RECOVERY_POINT_FILE
        wait_for("the file", file.exists)
        file.unlink()
        (file / "in-the-way").mkdir(parents=True)
        try:
            ledger.produce(400, size=100)
            scene.topic(4)
            scene.wait_offline(broker, path)
            scene.check(ledger)
        finally:
            shutil.rmtree(file)


# Copies that a move between directories left behind


def test_copy_that_is_all_there_is_becomes_the_replica_kafka_16082(stage: Stage) -> None:
    """There a copy could be left beside a new, empty replica, which led and lost all records; here
    a copy in the directory that the metadata name becomes the replica.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4, 1)
        leader, path = scene.leader(ledger)
        assert scene.cluster.node(leader).stop() == 0
        folder = path / f"{ledger.topic}-0"
        folder.rename(folder.with_name(f"{folder.name}.{'0' * 32}-future"))
        scene.start(leader)
        scene.check(ledger)
        assert folder.is_dir()


@pytest.mark.parametrize("named", some(["the log", "the copy"], "the copy"))
def test_copy_beside_the_whole_log_does_not_replace_it_kafka_16297(
    named: str, stage: Stage
) -> None:
    """There the copy took over after a crash although the log had grown since (KAFKA-9087 and
    KAFKA-16365 alike); here the whole log is the replica until the copy has all of it.
    """
    with stage.scene() as scene:
        ledger = scene.topic(4, 1)
        leader, path = scene.leader(ledger)
        other = next(each for each in scene.cluster.broker(leader).paths if each != path)
        scene.cluster.node(leader).kill()
        folder = path / f"{ledger.topic}-0"
        copied, kept = (other, path) if named == "the log" else (path, other)
        if kept is other:
            folder.rename(other / folder.name)
        future = copied / f"{folder.name}.{'0' * 32}-future"
        shutil.copytree(kept / folder.name, future)
        for log in future.glob("*.log"):
            log.write_bytes(b"")
        scene.cluster.own(future)
        scene.start(leader)
        scene.check(ledger)


# Metadata versions


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
    arguments = ["format", "-t", cluster.id, "-r", release]
    command = [
        *script("jbod-storage"),
        *arguments,
        "-c",
        str(cluster.node(CONTROLLER_ID).properties_file),
    ]
    return as_servers(cluster, command)
