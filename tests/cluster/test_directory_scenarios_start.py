"""Directories that changed while their broker was down, or that are broken when it starts. After
each scenario nothing acknowledged is lost, and metadata, disks and answers to clients agree.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from confluent_kafka import ElectionType

from jbodlab.storage.directory import names
from tests.cluster.disk_faults import KINDS
from tests.cluster.harness import (
    CONTROLLER_ID,
    as_servers,
    assigned,
    directory_id,
    partitions_in,
    script,
    wait_for,
)
from tests.cluster.invariants import Ledger, settle
from tests.cluster.lab_cluster import run_to_end, set_property
from tests.cluster.scenes import MOMENTS, Scene, Stage, some

pytestmark = pytest.mark.cluster


def stopped_with_fault(scene: Scene, kind: str) -> tuple[Ledger, Path]:
    """Broker 2 is down, and one of its directories is broken."""
    ledger = scene.topic(8, min_insync_replicas="1")
    path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
    assert scene.cluster.node(2).stop() == 0
    scene.faults.make(kind, path)
    ledger.produce()
    return ledger, path


@pytest.mark.parametrize("kind", some(KINDS, "chmod000", "chmod555", "empty", "delete"))
def test_start_with_a_dead_directory(kind: str, stage: Stage) -> None:
    with stage.scene() as scene:
        ledger, path = stopped_with_fault(scene, kind)
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
        # What was dead at the start can be revived as well.
        scene.faults.heal(path)
        revived = scene.revive(2, path)
        assert not revived.error_message
        assert revived.replicas == len(partitions_in(path, ledger.topic))
        scene.wait_all_in_sync()
        scene.check(ledger, other)


def test_nothing_is_made_on_the_mount_point_of_a_disk_that_comes_back_later(stage: Stage) -> None:
    """The disk is mounted while the broker runs; until then its mount point stays as it is."""
    with stage.scene() as scene:
        ledger, path = stopped_with_fault(scene, "empty")
        scene.start(2)
        scene.wait_offline(2, path)
        ledger.produce()
        assert list(path.iterdir()) == []
        scene.restart(2)
        scene.wait_offline(2, path)
        assert list(path.iterdir()) == []
        scene.check(ledger)


def break_meta(text: str) -> dict[str, str]:
    """What may be wrong with a `meta.properties`, and still leaves the others to serve."""
    lines = text.splitlines()
    without = {
        key: [line for line in lines if not line.startswith(key)] for key in ("cluster", "node")
    }
    return {
        "unknown version": text.replace("version=1", "version=9"),
        "no cluster id": "\n".join(without["cluster"]),
        "no node id": "\n".join(without["node"]),
        "node id is no number": "\n".join([*without["node"], "node.id=two"]),
        "bad directory id": "\n".join(
            "directory.id=???" if line.startswith("directory.id") else line for line in lines
        ),
        "empty": "",
        "torn": text[: text.find("node.id") + 5],
        "zeroed": "\0" * len(text),
    }


@pytest.mark.parametrize("what", some(sorted(break_meta("")), "bad directory id", "torn"))
def test_start_with_bad_meta_properties(what: str, stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
        assert scene.cluster.node(2).stop() == 0
        file = path / "meta.properties"
        good = file.read_text()
        file.write_text(break_meta(good)[what])
        try:
            scene.start(2)
            scene.wait_offline(2, path)
            ledger.produce()
            scene.check(ledger)
        finally:
            file.write_text(good)


def test_start_with_directories_of_others_ends_with_one_line(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        assert scene.cluster.node(2).stop() == 0
        mine, second = scene.cluster.broker(2).paths[:2]
        file = mine / "meta.properties"
        good = file.read_text()
        cases = {
            good.replace("node.id=2", "node.id=3"): "doesn't match",
            good.replace(scene.cluster.id, "AAAAAAAAAAAAAAAAAAAAAA"): "Invalid cluster.id in",
            (second / "meta.properties").read_text(): "Duplicate directory ID",
            "\n".join(
                "directory.id=AAAAAAAAAAAAAAAAAAAAAQ" if line.startswith("directory.id") else line
                for line in good.splitlines()
            ): "directory ID",
        }
        for text, expected in cases.items():
            file.write_text(text)
            code, line = run_to_end(scene.cluster.node(2))
            assert (code, expected in line) == (1, True), line
            # Nothing was touched on the way.
            assert sorted(p.name for p in second.iterdir() if p.name == ".kafka_cleanshutdown")
        file.write_text(good)
        ledger.produce()
        scene.check(ledger)


def test_second_process_on_the_same_directories(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(4)
        settings = str(scene.cluster.node(2).properties_file)
        second = as_servers(scene.cluster, [*script("jbod-broker"), "-c", settings])
        assert second.returncode == 1
        assert "Failed to acquire lock on file .lock" in second.stderr.splitlines()[-1]
        ledger.produce()
        scene.check(ledger)


IO_ERRORS = [
    "unreadable segment",
    "unreadable folder",
    "segment is a folder",
    "unreadable checkpoint",
    "read-only clean shutdown",
]


@pytest.mark.parametrize("damage", some(IO_ERRORS, "unreadable folder", "segment is a folder"))
def test_start_finds_an_io_error_inside_a_directory(damage: str, stage: Stage) -> None:
    """The directory goes offline, the others serve, and the data wait for the repair."""
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
        folder = path / f"{ledger.topic}-0"
        assert scene.cluster.node(2).stop() == 0
        segment = folder / f"{0:020d}.log"
        aside = path.with_name("segment-aside")
        match damage:
            case "unreadable segment":
                segment.chmod(0)
            case "unreadable folder":
                folder.chmod(0)
            case "segment is a folder":
                segment.rename(aside)
                segment.mkdir()
            case "unreadable checkpoint":
                (path / "replication-offset-checkpoint").chmod(0)
            case _:
                path.chmod(0o555)
        try:
            scene.start(2)
            scene.wait_offline(2, path)
            ledger.produce()
            scene.check(ledger)
        finally:
            path.chmod(0o755)
            folder.chmod(0o755)
            (path / "replication-offset-checkpoint").chmod(0o644)
            if aside.exists():
                segment.rmdir()
                aside.rename(segment)
            segment.chmod(0o644)


LEFTOVERS = [
    "garbage in all checkpoints",
    "no checkpoints",
    "no indexes",
    "no leader epochs",
    "torn segment",
    "torn leader epochs",
    "empty folder",
    "no clean shutdown",
]


@pytest.mark.parametrize("damage", some(LEFTOVERS, "torn segment", "empty folder"))
def test_start_repairs_what_a_crash_may_leave(damage: str, stage: Stage) -> None:
    """The replica catches up with its leader again; nothing of it takes the directory along."""
    with stage.scene() as scene:
        ledger = Ledger(scene.cluster, scene.topic_at([[2, 1, 3]] * 8), 8)
        ledger.produce()
        path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
        folder = path / f"{ledger.topic}-0"
        scene.cluster.node(2).kill()
        segment = folder / f"{0:020d}.log"
        checkpoints = [entry for entry in path.iterdir() if entry.name.endswith("-checkpoint")]
        match damage:
            case "garbage in all checkpoints":
                for entry in checkpoints:
                    entry.write_text("0\n3\nwhat 7\n")
            case "no checkpoints":
                for entry in checkpoints:
                    entry.unlink()
            case "no indexes":
                for entry in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
                    entry.unlink()
            case "no leader epochs":
                (folder / "leader-epoch-checkpoint").unlink()
            case "torn segment":
                os.truncate(segment, segment.stat().st_size - 7)
            case "torn leader epochs":
                (folder / "leader-epoch-checkpoint").write_text("0\n")
            case "empty folder":
                for entry in folder.iterdir():
                    entry.unlink()
        ledger.produce()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)
        assert scene.ids[path] in scene.registered(2)
        # And what it has now is good enough to lead with.
        scene.cluster.admin().elect_leaders(ElectionType.PREFERRED).result(30)
        wait_for("it leads", lambda: set(scene.cluster.leaders(ledger.topic).values()) == {2})
        scene.check(ledger)


def test_the_order_of_log_dirs_and_their_spelling_mean_nothing(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="3")
        before = assigned(scene.cluster, 2, ledger.topic)
        dirs = scene.cluster.broker(2).paths
        link = dirs[0].with_name("link")
        link.symlink_to(dirs[0])
        spelled = [f"{dirs[3]}/", dirs[2], f"{dirs[1].parent}/./data", link]
        set_property(scene.cluster.node(2), "log.dirs", ",".join(map(str, spelled)))
        scene.restart(2)
        ledger.produce()
        scene.wait_all_in_sync()
        scene.check(ledger)
        assert assigned(scene.cluster, 2, ledger.topic) == before
        set_property(scene.cluster.node(2), "log.dirs", ",".join(map(str, dirs)))
        scene.restart(2)
        link.unlink()


def test_directory_is_added_while_another_is_dead(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger, path = stopped_with_fault(scene, "chmod000")
        dirs = scene.cluster.broker(2).paths
        added = dirs[0].parent.with_name("disk-9") / "data"
        added.mkdir(parents=True)
        scene.cluster.own(added.parent)
        set_property(scene.cluster.node(2), "log.dirs", ",".join(map(str, [*dirs, added])))
        scene.cluster.format([scene.cluster.node(2)])
        scene.start(2)
        scene.wait_offline(2, path)
        other = scene.topic(8)
        scene.check(ledger, other)
        # It is the emptiest, so it is filled first.
        assert partitions_in(added, other.topic)
        assert not partitions_in(added, ledger.topic)
        scene.make_whole()
        scene.check(ledger, other)
        # And taken away again: what was in there is made anew in the others.
        set_property(scene.cluster.node(2), "log.dirs", ",".join(map(str, dirs)))
        scene.restart(2)
        scene.wait_all_in_sync()
        scene.check(ledger, other)
        shutil.rmtree(added)


def test_two_replicas_change_places_by_hand(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        scene.cluster.node(2).kill()
        dirs = scene.cluster.broker(2).paths
        where = {p: path for path in dirs for p in partitions_in(path, ledger.topic)}
        for number, (partition, path) in enumerate(sorted(where.items())):
            target = dirs[(dirs.index(path) + 1 + number % 3) % 4]
            (path / f"{ledger.topic}-{partition}").rename(target / f"{ledger.topic}-{partition}")
        ledger.produce()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)
        now = {p: path for path in dirs for p in partitions_in(path, ledger.topic)}
        assert all(now[partition] != path for partition, path in where.items())


def test_disks_rotate_and_one_of_them_dies(stage: Stage) -> None:
    """The ids travel with the disks, so a replica is looked for where its disk is now."""
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        assert scene.cluster.node(2).stop() == 0
        dirs = scene.cluster.broker(2).paths
        aside = [path.rename(path.with_name("rotating")) for path in dirs]
        for path, source in zip(dirs[1:] + dirs[:1], aside, strict=True):
            source.rename(path)
        scene.ids.update({path: directory_id(path) for path in dirs})
        dead = dirs[1]
        scene.faults.make("chmod000", dead)
        scene.start(2)
        scene.wait_offline(2, dead)
        ledger.produce()
        scene.check(ledger)
        scene.faults.heal(dead)
        scene.restart(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


def test_broker_starts_without_a_controller_and_loses_a_directory_meanwhile(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
        scene.cluster.node(CONTROLLER_ID).kill()
        scene.cluster.node(2).kill()
        # It has found its directories, and asks for a controller.
        scene.start_until(2, "registers")
        scene.faults.make("file", path)
        scene.cluster.node(CONTROLLER_ID).start()
        scene.cluster.wait_served()
        scene.wait_offline(2, path)
        ledger.produce()
        scene.check(ledger)


def test_everything_stops_and_starts_with_a_dead_directory_on_every_broker(stage: Stage) -> None:
    with stage.scene() as scene:
        ledger = scene.topic(12, min_insync_replicas="1")
        single = scene.topic(12, 1)
        for node in [*scene.cluster.broker_ids, CONTROLLER_ID]:
            scene.cluster.node(node).kill()
        for number, broker in enumerate(scene.cluster.broker_ids):
            scene.faults.make("chmod000", scene.cluster.broker(broker).paths[number])
        for node in [CONTROLLER_ID, *scene.cluster.broker_ids]:
            scene.cluster.node(node).start()
        scene.cluster.wait_served()
        settle(scene.cluster)
        leaderless = [p for p, leader in scene.cluster.leaders(single.topic).items() if leader < 0]
        assert leaderless, "no directory of a single replica died"
        # Who was last in an ISR may sit in a dead directory; nobody else may lead then.
        scene.make_whole()
        scene.check(ledger, single)


@pytest.mark.soak
def test_killed_again_and_again_while_it_starts(stage: Stage) -> None:
    """Every time it may have got a little further: locks, markers, checkpoints, registration."""
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        assert scene.cluster.node(2).stop() == 0
        for moment in [*MOMENTS, *reversed(MOMENTS)]:
            scene.start_until(2, moment)
            scene.cluster.node(2).kill()
            ledger.produce(8)
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)


@pytest.mark.soak
def test_unplugged_while_down_and_registered_when_it_is_back(stage: Stage) -> None:
    """Dead at one start, alive at the next, dead again: the registration follows."""
    with stage.scene() as scene:
        ledger = scene.topic(8, min_insync_replicas="1")
        path = scene.cluster.broker(2).log_dir_of(ledger.topic, 0).path
        for _ in range(2):
            assert scene.cluster.node(2).stop() == 0
            scene.faults.make("chmod000", path)
            scene.start(2)
            scene.wait_offline(2, path)
            ledger.produce()
            scene.check(ledger)
            assert scene.cluster.node(2).stop() == 0
            scene.faults.heal(path)
            scene.start(2)
            wait_for("registered", lambda: scene.ids[path] in scene.registered(2))
            scene.wait_all_in_sync()
            scene.check(ledger)


def test_metadata_directory_is_one_of_the_data_directories(stage: Stage) -> None:
    """Where it is, as by default, its loss ends the broker; that of the others does not."""
    with stage.scene() as scene:
        cluster, ledger = scene.cluster, scene.topic(6, min_insync_replicas="1")
        first, second, *_ = cluster.broker(2).paths
        apart = cluster.node(2).metadata_dir
        set_property(cluster.node(2), "metadata.log.dir", str(first))
        scene.restart(2)
        scene.break_and_wait("chmod000", 2, second)
        ledger.produce()
        scene.check(ledger)
        scene.faults.make("chmod000", first)
        assert cluster.node(2).wait_ended() == 1
        lines = [line for line in scene.said(2).splitlines() if line.strip()]
        assert f"metadata log directory {first}" in lines[-1]
        ledger.produce()
        scene.check(ledger)
        code, line = run_to_end(cluster.node(2))
        assert code == 1
        assert str(first) in line
        scene.faults.heal_all()
        scene.start(2)
        scene.wait_all_in_sync()
        scene.check(ledger)
        assert cluster.node(2).stop() == 0
        set_property(cluster.node(2), "metadata.log.dir", str(apart))
        shutil.rmtree(first / names.METADATA_DIR_NAME)
