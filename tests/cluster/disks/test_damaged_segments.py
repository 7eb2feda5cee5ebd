"""Segments that a disk has damaged: at a start after kill -9, and found by `storage verify`.

Bytes behind damage are kept as `.damaged`, every loss is said with its offsets, and a replica that
has others to copy from ends with the same batches as its leader.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from jbodlab.storage.directory import meta_properties, names
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.partition_metadata import write_topic_id
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from tests.cluster.harness import wait_for
from tests.cluster.invariants import Ledger
from tests.cluster.scenes import Scene
from tests.command_lines import run

pytestmark = pytest.mark.cluster

SEGMENT_BYTES = 4_000


def filled(scene: Scene, replicas: list[list[int]]) -> Ledger:
    """A topic whose partitions have many segments, on the disk for certain."""
    topic = scene.topic_at(
        replicas, internal_segment_bytes=str(SEGMENT_BYTES), min_insync_replicas="1"
    )
    ledger = Ledger(scene.cluster, topic, len(replicas))
    for _ in range(12):
        ledger.produce(4 * len(replicas), size=300)
    return ledger


def folder_of(scene: Scene, broker: int, topic: str, partition: int) -> Path:
    return scene.cluster.broker(broker).log_dir_of(topic, partition).path / f"{topic}-{partition}"


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def batches(folder: Path) -> bytes:
    """All batches of a replica, however they are cut into segments."""
    return b"".join(path.read_bytes() for path in segments(folder))


def flushed(scene: Scene, broker: int, ledger: Ledger) -> None:
    """Wait until the closed segments of all partitions are below the recovery point."""

    def is_flushed() -> bool:
        for partition in range(ledger.partitions):
            folder = folder_of(scene, broker, ledger.topic, partition)
            lines = (folder.parent / names.RECOVERY_POINT_FILE).read_text().splitlines()
            points = {tuple(line.split()[:2]): int(line.split()[2]) for line in lines[2:]}
            last = names.parse_offset(segments(folder)[-1].name)
            if points.get((ledger.topic, str(partition)), 0) < last:
                return False
        return True

    wait_for("the closed segments are flushed", is_flushed)


def without_recovery_point(folder: Path) -> None:
    """Forget how far a replica is known to be on the disk, as a crash soon after does."""
    path = folder.parent / names.RECOVERY_POINT_FILE
    topic, _, partition = folder.name.rpartition("-")
    version, _, *lines = path.read_text().splitlines()
    kept = [line for line in lines if line.split()[:2] != [topic, partition]]
    path.write_text("\n".join([version, str(len(kept)), *kept, ""]))


def zero_header(segment: Path) -> None:
    data = segment.read_bytes()
    segment.write_bytes(bytes(61) + data[61:])


def lose_index(segment: Path) -> None:
    """The index is gone, and a bit of a batch has changed with it."""
    segment.with_suffix(".index").unlink()
    flip_bit(segment)


def cut_short(segment: Path) -> None:
    os.truncate(segment, segment.stat().st_size - 100)


def flip_bit(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 4
    segment.write_bytes(data)


DAMAGE: Mapping[str, Callable[[Path], None]] = {
    "header of zeros": zero_header,
    "index gone": lose_index,
    "file short": cut_short,
    "flipped bit": flip_bit,
}


def lost_from(scene: Scene, broker: int, segment: Path) -> int:
    """The first offset that a broker has said to be lost in a segment."""
    damage = r": damaged at byte \d+ of \d+; this replica has lost the offsets from (\d+) on"
    pattern = re.escape(str(segment)) + damage
    lines = [line for line in scene.said(broker).splitlines() if re.search(pattern, line)]
    assert len(lines) == 1, lines
    assert "ERROR" in lines[0]
    found = re.search(pattern, lines[0])
    assert found is not None
    return int(found[1])


def test_damage_found_at_the_start_after_a_kill_is_copied_from_the_leader(scene: Scene) -> None:
    ledger = filled(scene, [[1, 2, 3]] * len(DAMAGE))
    flushed(scene, 2, ledger)
    folders = [folder_of(scene, 2, ledger.topic, n) for n in range(len(DAMAGE))]
    scene.cluster.node(2).kill()
    damaged, behind = [], []
    for (what, damage), folder in zip(DAMAGE.items(), folders, strict=True):
        _, second, *later = segments(folder)
        damage(second)
        damaged.append(second)
        behind.append(later)
        if what == "flipped bit":
            without_recovery_point(folder)

    scene.start(2)
    scene.wait_all_in_sync()

    for partition, folder in enumerate(folders):
        base = names.parse_offset(damaged[partition].name)
        end = names.parse_offset(behind[partition][0].name)
        assert base <= lost_from(scene, 2, damaged[partition]) < end
        for path in (damaged[partition], *behind[partition]):
            assert path.with_name(path.name + names.DAMAGED_SUFFIX).exists()
        leader = folder_of(scene, 1, ledger.topic, partition)
        wait_for(
            f"the batches of the leader in {folder}",
            lambda ours=folder, theirs=leader: batches(ours) == batches(theirs),
        )
    ledger.produce()
    scene.check(ledger)


def jbodlab(*words: str) -> tuple[int, Any, str]:
    """Run a command: its exit code, its JSON, and what it complained of."""
    code, out, err = run([*words, "--output", "json"])
    return code, json.loads(out or "{}"), err


def verify(*where: str) -> tuple[int, dict[Path, dict[str, Any]], list[dict[str, Any]]]:
    """Verify directories: the exit code, the damaged replicas by their folders, directories."""
    code, found, _ = jbodlab("storage", "verify", "--rate", "500", *where)
    directories = found["directories"]
    return code, damaged_in(directories), directories


def damaged_in(directories: list[dict[str, Any]]) -> dict[Path, dict[str, Any]]:
    return {
        Path(directory["path"], each["folder"]): each
        for directory in directories
        for each in directory["damaged"]
    }


def repair(
    scene: Scene, tmp_path: Path, directories: list[dict[str, Any]]
) -> tuple[int, dict[Path, dict[str, Any]], str]:
    """Repair what was found: the exit code, the outcome by folders, complaints."""
    file = tmp_path / "found.json"
    file.write_text(json.dumps({"directories": directories}))
    address = scene.cluster.bootstrap
    words = ("storage", "repair", str(file), "--bootstrap-server", address, "--yes")
    code, outcome, said = jbodlab(*words)
    return code, {Path(one["folder"]): one for one in outcome}, said


def flip_in_place(segment: Path) -> None:
    """A bit changes under a broker that has the file open, perhaps to append to it."""
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


@pytest.mark.parametrize("number", [1, -1], ids=["closed segment", "active segment"])
def test_bit_rot_is_repaired_from_the_leader_while_the_broker_runs(
    scene: Scene, number: int, tmp_path: Path
) -> None:
    ledger = filled(scene, [[1, 2, 3], [2, 1, 3]])
    followed, leading = (folder_of(scene, 2, ledger.topic, n) for n in range(2))
    for folder in (followed, leading):
        flip_in_place(segments(folder)[number])
    where = [*sorted({str(followed.parent), str(leading.parent)}), "--topic", ledger.topic]
    _, _, found = verify(*where)

    code, repaired, _ = repair(scene, tmp_path, found)

    assert code == 1
    assert repaired[followed]["repaired"], repaired[followed]["refusal"]
    # Its followers have the records; it is repaired when one of them leads.
    assert "broker 2 leads" in repaired[leading]["refusal"]
    assert folder_of(scene, 2, ledger.topic, 0) == followed
    _, damaged, _ = verify(*where)
    assert set(damaged) == {leading}
    leader = folder_of(scene, 1, ledger.topic, 0)
    wait_for("the batches of the leader", lambda: batches(followed) == batches(leader))
    ledger.produce()
    scene.wait_all_in_sync()
    scene.check(ledger)


def test_a_directory_is_not_repaired_from_another_cluster(scene: Scene, tmp_path: Path) -> None:
    ledger = filled(scene, [[1, 2, 3]])
    theirs = folder_of(scene, 2, ledger.topic, 0)
    foreign = tmp_path / theirs.name
    shutil.copytree(theirs, foreign)
    meta = MetaProperties(cluster_id="another", node_id=2)
    meta_properties.write(PosixFileSystem(), tmp_path, meta)
    flip_bit(segments(foreign)[1])
    before = sorted(path.name for path in foreign.iterdir())

    _, _, found = verify(str(tmp_path))
    code, repaired, said = repair(scene, tmp_path, found)

    assert (code, repaired) == (1, {})
    assert said.startswith(f"jbodlab: {tmp_path} belongs to cluster another, and at ")
    assert len(said.splitlines()) == 1
    assert sorted(path.name for path in foreign.iterdir()) == before

    cluster_id = meta_properties.read(PosixFileSystem(), theirs.parent).cluster_id
    meta_properties.write(PosixFileSystem(), tmp_path, replace(meta, cluster_id=cluster_id))
    write_topic_id(PosixFileSystem(), foreign / names.PARTITION_METADATA_FILE, UUID(int=77))
    code, repaired, _ = repair(scene, tmp_path, found)
    assert code == 1
    assert "another topic of this name" in repaired[foreign]["refusal"]
    assert not list(foreign.glob("*.damaged"))
    scene.check(ledger)


def test_bit_rot_is_found_beside_a_running_broker_and_repaired_from_the_leader(
    scene: Scene, tmp_path: Path
) -> None:
    ledger, alone = filled(scene, [[1, 2, 3], [2, 1, 3]]), filled(scene, [[2]])
    folders = [folder_of(scene, 2, ledger.topic, n) for n in range(2)]
    folders.append(folder_of(scene, 2, alone.topic, 0))
    paths = sorted({str(folder.parent) for folder in folders})
    where = [*paths, "--topic", ledger.topic, "--topic", alone.topic]
    code, damaged, found = verify(*where)
    assert (code, damaged) == (0, {})
    assert all(each["in_use"] for each in found)
    for folder in folders:
        flip_bit(segments(folder)[2])
    segments(folders[0])[1].with_suffix(".timeindex").unlink()

    code, damaged, found = verify(*where)

    assert code == 1
    assert set(damaged) == set(folders)
    for folder in folders:
        (records,) = [each for each in damaged[folder]["damage"] if not each["in_index"]]
        assert records["file"] == segments(folder)[2].name
        assert names.parse_offset(records["file"]) <= records["first_offset"]
        assert records["first_offset"] <= records["last_offset"]
    assert [each["file"] for each in damaged[folders[0]]["damage"] if each["in_index"]] == [
        segments(folders[0])[1].with_suffix(".timeindex").name
    ]

    assert scene.cluster.node(2).stop() == 0
    code, repaired, _ = repair(scene, tmp_path, found)
    assert code == 1
    for folder in folders[:2]:
        assert repaired[folder]["repaired"], repaired[folder]["refusal"]
        assert len(segments(folder)) == 2
        assert list(folder.glob("*.log.damaged"))
    # Nobody else has these records.
    assert "no replica leads" in repaired[folders[2]]["refusal"]
    assert not list(folders[2].glob("*.damaged"))

    scene.start(2)
    scene.wait_all_in_sync()
    for partition, folder in enumerate(folders[:2]):
        leader = folder_of(scene, 1, ledger.topic, partition)
        wait_for(
            f"the batches of the leader in {folder}",
            lambda ours=folder, theirs=leader: batches(ours) == batches(theirs),
        )
    _, damaged, _ = verify(*where)
    assert set(damaged) == {folders[2]}
    scene.check(ledger)
