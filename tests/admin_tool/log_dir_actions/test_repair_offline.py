"""Arguments of `jbodlab storage repair`, and the replicas of a stopped broker that it repairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from admin_tool.log_dir_actions.findings import read
from admin_tool.log_dir_actions.repair_offline import Damage, offline_refusal
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.topics import PartitionDescription
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary import kafka_uuid

DIRECTORY_ID = kafka_uuid.random_uuid(lambda count: b"\x42" * count)
DAMAGE: dict[str, Any] = {
    "file": "00000000000000000002.log",
    "base_offset": 2,
    "position": 61,
    "problem": "wrong CRC",
    "first_offset": 3,
    "last_offset": None,
    "in_index": False,
}
REPLICA = {"topic": "orders", "partition": 1, "folder": "orders-1", "damage": [DAMAGE]}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    meta = MetaProperties(version=1, cluster_id="c", node_id=3, directory_id=DIRECTORY_ID)
    meta_properties.write(PosixFileSystem(), tmp_path, meta)
    return tmp_path


def findings(log_dir: Path, replica: dict[str, Any], **changes: object) -> bytes:
    directory = {
        "path": str(log_dir),
        "directory_id": kafka_uuid.to_text(DIRECTORY_ID),
        "in_use": False,
        "replicas": 2,
        "damaged": [replica],
        **changes,
    }
    return json.dumps({"directories": [directory]}).encode()


def test_the_damaged_replicas_of_each_directory_are_read(log_dir: Path) -> None:
    ((path, (replica,)),) = read(PosixFileSystem(), findings(log_dir, REPLICA))

    assert (path, replica.folder) == (log_dir, log_dir / "orders-1")
    assert replica.damage == (
        Damage(base_offset=2, file="00000000000000000002.log", in_index=False),
    )


def test_directories_without_damage_are_left_out(log_dir: Path) -> None:
    assert read(PosixFileSystem(), findings(log_dir, REPLICA, damaged=[])) == []


@pytest.mark.parametrize(
    "replica",
    [
        {**REPLICA, "folder": "../orders-1"},
        {**REPLICA, "folder": "orders-2"},
        {**REPLICA, "folder": "orders-1.0123456789abcdef0123456789abcdef-stray"},
        {**REPLICA, "damage": [{**DAMAGE, "file": "../orders-2/00000000000000000002.log"}]},
    ],
)
def test_what_is_not_a_replica_of_the_directory_is_refused(
    log_dir: Path, replica: dict[str, Any]
) -> None:
    with pytest.raises(AdminError, match="expected a replica of orders-1"):
        read(PosixFileSystem(), findings(log_dir, replica))


def test_another_directory_at_the_path_is_refused(log_dir: Path) -> None:
    other = kafka_uuid.to_text(kafka_uuid.random_uuid(lambda count: b"\x43" * count))

    with pytest.raises(AdminError, match="another directory is at"):
        read(PosixFileSystem(), findings(log_dir, REPLICA, directory_id=other))


@pytest.mark.parametrize("content", [b"", b"{}", b'{"directories": [{"path": 1}]}'])
def test_what_verify_does_not_print_is_refused(content: bytes) -> None:
    with pytest.raises(AdminError, match="expected the JSON of `jbodlab storage verify`"):
        read(PosixFileSystem(), content)


def partition(leader: int | None, isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(index=0, leader=leader, replicas=(1, 2, 3), isr=isr)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (partition(1, (1, 2)), None),
        (None, "knows no such replica"),
        (PartitionDescription(index=0, leader=1, replicas=(1, 2), isr=(1,)), "no such replica"),
        (partition(None, (3,)), "no replica leads"),
        (partition(None, ()), "no replica leads"),
        (partition(3, (3,)), "broker 3 leads"),
        (partition(3, (1, 2, 3)), "broker 3 leads"),
        (partition(1, (1, 3)), "still in the ISR"),
    ],
)
def test_only_what_another_replica_has_for_certain_is_given_up(
    state: PartitionDescription | None, why: str | None
) -> None:
    refusal = offline_refusal(3, state)

    assert refusal is None if why is None else why in str(refusal)
