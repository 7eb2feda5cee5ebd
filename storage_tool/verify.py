"""`jbodlab storage verify`: reads log directories of this machine, and finds damage.

Every segment of every current replica is read at a bounded rate, see
`storage_tool.verification`. The broker may run or not; the tool sends it no request. If it runs, a
replica that looks damaged is read once more, as a segment may have been rolled, cut or removed in
between.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from jbodlab.cli.output import Output
from jbodlab.storage.compaction.compaction_plan import Rate, RateThrottle, Throttle
from jbodlab.storage.directory import meta_properties, names
from jbodlab.storage.directory.checkpoints import read_offsets
from jbodlab.storage.directory.filesystem import CopySource, FileSystem
from jbodlab.storage.directory.names import DirKind
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import CorruptRecordError, FormatError, JbodlabError
from jbodlab.vocabulary.ids import TopicPartition
from storage_tool.verification import Circumstances, Damage, VerifiedReplica, verify_replica

if TYPE_CHECKING:
    from jbodlab.cli.results import DamagedReplica, Verified
    from jbodlab.cli.results import VerifiedDirectory as Directory

_FLOCK = struct.Struct("hhqqi")
"""`struct flock` of 64-bit Linux: type, whence, start, length, process."""

ATTEMPTS = 5
"""Attempts at a replica whose files vanish while they are read."""

LOOK_AGAIN_S = 1.0
"""Pause before a replica of a running broker that looked damaged is read again."""


class VerifyError(JbodlabError):
    """A directory cannot be verified."""


@dataclass(slots=True, kw_only=True)
class VerifiedDirectory:
    """The findings in one directory.

    Attributes:
        directory_id: Id from its `meta.properties`; None if the file has none.
        in_use: Whether a broker runs that uses it.
    """

    path: Path
    directory_id: UUID | None
    in_use: bool
    replicas: list[VerifiedReplica] = field(default_factory=list)

    @property
    def damaged(self) -> list[VerifiedReplica]:
        """Replicas with damage."""
        return [replica for replica in self.replicas if replica.damage]


def run(options: Namespace, output: Output) -> int:
    """Verify directories; returns 1 if a replica is damaged, else 0."""
    fs = PosixFileSystem()
    throttle = RateThrottle(threading.Event(), Rate(options.rate * 1e6), time.monotonic)
    verified = []
    for name in options.directories:
        output.progress(f"reading {name}")
        verified.append(verify_directory(fs, Path(name), frozenset(options.topic), throttle))
    output.result(_as_json(verified), "\n".join(_text(verified)))
    return 1 if any(each.damaged for each in verified) else 0


def verify_directory(
    fs: FileSystem,
    path: Path,
    topics: frozenset[str],
    throttle: Throttle,
) -> VerifiedDirectory:
    """Verify the current replicas in one directory.

    Args:
        fs: The disk.
        path: The directory.
        topics: Whose replicas; all if there are none.
        throttle: Keeps the rate of reading.

    Raises:
        VerifyError: it is not a log directory, or the disk cannot be read.
    """
    try:
        meta = meta_properties.read(fs, path)
        found = VerifiedDirectory(path=path, directory_id=meta.directory_id, in_use=is_locked(path))
        for folder in _folders(fs, path, topics):
            replica = _verify_replica(fs, folder, found.in_use, throttle)
            if replica is not None and replica.damage and found.in_use:
                time.sleep(LOOK_AGAIN_S)
                replica = _verify_replica(fs, folder, found.in_use, throttle)
            if replica is not None:
                found.replicas.append(replica)
    except FormatError as error:
        raise VerifyError(f"{path} is not a log directory: {error}") from error
    except OSError as error:
        raise VerifyError(f"{error.filename or path} cannot be read: {error.strerror}") from error
    return found


def _verify_replica(
    fs: FileSystem, folder: Path, in_use: bool, throttle: Throttle
) -> VerifiedReplica | None:
    """Verify one replica; None if it was removed meanwhile."""
    topic_partition = names.parse_partition_dir(folder.name).topic_partition
    for _ in range(ATTEMPTS):
        circumstances = Circumstances(
            in_use=in_use,
            clean=not in_use and fs.exists(folder.parent / names.CLEAN_SHUTDOWN_FILE),
            has_gaps=topic_partition in _offsets(fs, folder.parent / names.CLEANER_OFFSET_FILE),
        )
        points = _offsets(fs, folder.parent / names.RECOVERY_POINT_FILE)
        recovery_point = points.get(topic_partition, 0)
        try:
            return verify_replica(
                fs, folder, circumstances, recovery_point, throttle, _forget_cached
            )
        except FileNotFoundError:
            # Retention has removed a segment, or the replica was removed.
            if not in_use:
                raise
            if not fs.exists(folder):
                return None
    raise VerifyError(f"{folder} changes faster than it can be read; raise --rate")


def _offsets(fs: FileSystem, path: Path) -> Mapping[TopicPartition, int]:
    try:
        return read_offsets(fs, path)
    except CorruptRecordError:
        return {}


def _folders(fs: FileSystem, path: Path, topics: frozenset[str]) -> Iterator[Path]:
    """Return the folders of current replicas; other entries are ignored."""
    for name in fs.listdir(path):
        try:
            parsed = names.parse_partition_dir(name)
        except ValueError:
            continue
        is_wanted = not topics or parsed.topic_partition.topic in topics
        if parsed.kind is DirKind.CURRENT and name != names.METADATA_DIR_NAME and is_wanted:
            yield path / name


def is_locked(directory: Path) -> bool:
    """Return whether another process holds the lock of a directory; takes none itself.

    Raises:
        OSError: the lock cannot be checked.
    """
    try:
        fd = os.open(directory / names.LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        return bool(_FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK)
    finally:
        os.close(fd)


def _forget_cached(source: CopySource) -> None:
    os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _text(verified: list[VerifiedDirectory]) -> Iterator[str]:
    for directory in verified:
        for replica in directory.damaged:
            for one in replica.damage:
                yield f"{replica.folder / one.file} at byte {one.position}: {_described(one)}"
        segments = sum(replica.segments for replica in directory.replicas)
        megabytes = sum(replica.size_bytes for replica in directory.replicas) / 1e6
        yield (
            f"{directory.path}: {len(directory.replicas)} replicas, {segments} segments, "
            f"{megabytes:.1f} MB read, damaged replicas: {len(directory.damaged)}"
            f"{' (a broker is running on it)' if directory.in_use else ''}"
        )


def _described(one: Damage) -> str:
    if one.in_index:
        return one.problem
    if one.last_offset is None:
        return f"{one.problem}; offsets from {one.first_offset} on"
    return f"{one.problem}; offsets {one.first_offset} to {one.last_offset}"


def _as_json(verified: list[VerifiedDirectory]) -> Verified:
    return {"directories": [_directory_as_json(directory) for directory in verified]}


def _directory_as_json(directory: VerifiedDirectory) -> Directory:
    directory_id = directory.directory_id
    return {
        "path": str(directory.path.absolute()),
        "directory_id": None if directory_id is None else kafka_uuid.to_text(directory_id),
        "in_use": directory.in_use,
        "replicas": len(directory.replicas),
        "segments": sum(replica.segments for replica in directory.replicas),
        "bytes": sum(replica.size_bytes for replica in directory.replicas),
        "damaged": [_replica_as_json(replica) for replica in directory.damaged],
    }


def _replica_as_json(replica: VerifiedReplica) -> DamagedReplica:
    return {
        "topic": replica.topic_partition.topic,
        "partition": replica.topic_partition.partition,
        "folder": replica.folder.name,
        "damage": [
            {
                "file": one.file,
                "base_offset": one.base_offset,
                "position": one.position,
                "problem": one.problem,
                "first_offset": one.first_offset,
                "last_offset": one.last_offset,
                "in_index": one.in_index,
            }
            for one in replica.damage
        ],
    }
