"""The JSON of `jbodlab storage verify`, as far as a repair needs it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from admin_tool.log_dir_actions.repair_offline import Damage, DamagedReplica, meta_of
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.storage.directory import names
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.names import DirKind
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import TopicPartition

Found = list[tuple[Path, list[DamagedReplica]]]
"""Directories, and the damaged replicas in each."""


class _Replica(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    folder: str
    damage: tuple[Damage, ...]


class _Directory(msgspec.Struct, frozen=True):
    path: str
    directory_id: str | None
    damaged: tuple[_Replica, ...]


class _Findings(msgspec.Struct, frozen=True):
    directories: tuple[_Directory, ...]


def read(fs: FileSystem, content: bytes) -> Found:
    """Read findings; directories without damage are left out.

    Args:
        fs: The disk.
        content: The JSON.

    Raises:
        AdminError: it is not that, or another directory is at a path by now.
    """
    try:
        found = msgspec.json.decode(content, type=_Findings)
    except msgspec.DecodeError as error:
        raise AdminError(f"expected the JSON of `jbodlab storage verify`: {error}") from error
    return [_directory(fs, one) for one in found.directories if one.damaged]


def _directory(fs: FileSystem, found: _Directory) -> tuple[Path, list[DamagedReplica]]:
    path = Path(found.path)
    directory_id = meta_of(fs, path).directory_id
    shown = None if directory_id is None else kafka_uuid.to_text(directory_id)
    if shown != found.directory_id:
        raise AdminError(f"another directory is at {path} than was verified: verify it again")
    return path, [_replica(path, one) for one in found.damaged]


def _replica(path: Path, found: _Replica) -> DamagedReplica:
    try:
        parsed = names.parse_partition_dir(found.folder)
    except ValueError:
        parsed = None
    topic_partition = TopicPartition(found.topic, found.partition)
    is_elsewhere = any(Path(each.file).name != each.file for each in found.damage)
    is_current = parsed is not None and (
        (parsed.topic_partition, parsed.kind) == (topic_partition, DirKind.CURRENT)
    )
    if is_elsewhere or not is_current:
        raise AdminError(f"expected a replica of {topic_partition} in {path}, got {found.folder!r}")
    return DamagedReplica(
        topic_partition=topic_partition,
        folder=path / found.folder,
        damage=found.damage,
    )
