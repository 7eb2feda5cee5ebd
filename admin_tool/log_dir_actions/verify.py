"""jbod-log-dirs verify: reads what lies in log directories of this machine, and finds damage.

Every segment of every current replica is read at a bounded rate, see `jbodlab.log.verification`.
The broker may run, or not; nothing is asked of it. Where it runs, what looks damaged is looked at
once more, as a segment may have been rolled, cut or removed in between.

`--mend` has damaged replicas copied from their leaders, where the cluster says that another replica
leads: it has every record that was ever acknowledged. A broker that runs makes them anew, see
`mending_online`. In the directories of one that is stopped, the first bad segment and all behind it
are renamed to `.damaged`, and it copies them when it is started; a damaged index is removed, and
made anew from the batches.

Exit codes: 0 nothing is damaged, or all of it was mended; 1 there is damage, or it failed.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from admin_tool.errors import AdminError, UsageError
from admin_tool.log_dir_actions.mending import Mended, connected_to_cluster_of, mend
from admin_tool.log_dir_actions.mending_online import mend_online
from admin_tool.options import Parsed, comma_list
from jbodlab.errors import CorruptRecordError, FormatError
from jbodlab.ids import TopicPartition
from jbodlab.log import meta_properties, names
from jbodlab.log.checkpoints import read_offsets
from jbodlab.log.directory_lock import DirectoryLock
from jbodlab.log.filesystem import CopySource, Disk, FileSystem
from jbodlab.log.names import DirKind
from jbodlab.log.posix_filesystem import PosixFileSystem
from jbodlab.log.verification import Circumstances, Damage, VerifiedReplica, verify_replica

RATE_MB_S = 50
"""Default rate of reading, in MB of 10^6 bytes a second."""

BURST_S = 0.5
"""Bytes of so long a time may be read at once, where reading was held up."""

_FLOCK = struct.Struct("hhqqi")
"""`struct flock` of 64-bit Linux: type, whence, start, length, process."""

ATTEMPTS = 5
"""How often a replica is begun anew of which files vanish."""

LOOK_AGAIN_S = 1.0
"""How long after something looked damaged beside a running broker it is looked at again."""


@dataclass(slots=True, kw_only=True)
class VerifiedDirectory:
    """What was found in one directory; `in_use` by a running broker."""

    path: Path
    in_use: bool
    replicas: list[VerifiedReplica] = field(default_factory=list)

    @property
    def damaged(self) -> list[VerifiedReplica]:
        """Replicas with damage."""
        return [replica for replica in self.replicas if replica.damage]


class Pace:
    """Lets so many bytes pass in a second.

    Args:
        bytes_s: The rate.
        clock: In seconds.
        sleep: Waits for seconds.
    """

    def __init__(
        self,
        bytes_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_s = bytes_s
        self._clock = clock
        self._sleep = sleep
        self._due = clock()

    def __call__(self, size: int) -> None:
        """Wait until what was read fits the rate."""
        now = self._clock()
        # The time that the disk took counts; a long wait for something else does not.
        self._due = max(self._due, now - BURST_S) + size / self._bytes_s
        if self._due > now:
            self._sleep(self._due - now)


def run(options: Parsed) -> int:
    """Verify directories, and mend them if asked; returns the exit code."""
    paths = [Path(part) for part in comma_list(options.required("dir"))]
    pace = Pace(_rate(options) * 1e6)
    topics = frozenset(comma_list(options.text("topic-list")))
    fs = PosixFileSystem()
    results: list[Mended] = []
    if options.has("mend"):
        options.require("bootstrap-server")
        # At once, before hours of reading; and again by whoever mends.
        with connected_to_cluster_of(fs, options, paths):
            pass
    with ExitStack() as locks:
        is_ours = {path: options.has("mend") and _lock(fs, locks, path) for path in paths}
        verified = [
            verify_directory(fs, path, topics, pace, is_ours=is_ours[path]) for path in paths
        ]
        damaged = sum(len(each.damaged) for each in verified)
        if options.has("mend"):
            results = _mend(fs, options, [each for each in verified if each.damaged])
    if options.has("json"):
        print(json.dumps(_as_json(verified, results)))
    else:
        for line in _text(verified, results):
            print(line)
    return 1 if damaged > sum(not result.refusal for result in results) else 0


def _mend(fs: FileSystem, options: Parsed, damaged: list[VerifiedDirectory]) -> list[Mended]:
    stopped, running = (
        [(each.path, each.damaged) for each in damaged if each.in_use is in_use]
        for in_use in (False, True)
    )
    results = mend(fs, options, stopped) if stopped else []
    return [*results, *(mend_online(fs, options, running) if running else ())]


def verify_directory(
    fs: FileSystem,
    path: Path,
    topics: frozenset[str],
    pace: Callable[[int], None],
    *,
    is_ours: bool,
) -> VerifiedDirectory:
    """Verify the current replicas in one directory.

    Args:
        fs: The disk.
        path: The directory.
        topics: Whose replicas; all if there are none.
        pace: Keeps the rate of reading.
        is_ours: Whether this process holds the directory's lock, which it would lose by asking.

    Raises:
        AdminError: it is no log directory, or the disk cannot be read.
    """
    try:
        meta_properties.read(fs, path)
        found = VerifiedDirectory(path=path, in_use=not is_ours and is_locked(path))
        for folder in _folders(fs, path, topics):
            replica = _verify_replica(fs, folder, found.in_use, pace)
            if replica is not None and replica.damage and found.in_use:
                time.sleep(LOOK_AGAIN_S)
                replica = _verify_replica(fs, folder, found.in_use, pace)
            if replica is not None:
                found.replicas.append(replica)
    except FormatError as error:
        raise AdminError(f"{path} is no log directory: {error}") from error
    except OSError as error:
        raise AdminError(f"{error.filename or path} cannot be read: {error.strerror}") from error
    return found


def _verify_replica(
    fs: FileSystem, folder: Path, in_use: bool, pace: Callable[[int], None]
) -> VerifiedReplica | None:
    """Verify one replica; None if it has gone meanwhile."""
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
            return verify_replica(fs, folder, circumstances, recovery_point, pace, _forget_cached)
        except FileNotFoundError:
            # Retention has removed a segment, or somebody the replica.
            if not in_use:
                raise
            if not fs.exists(folder):
                return None
    raise AdminError(f"{folder} changes faster than it can be read; raise --rate")


def _offsets(fs: FileSystem, path: Path) -> Mapping[TopicPartition, int]:
    try:
        return read_offsets(fs, path)
    except CorruptRecordError:
        return {}


def _folders(fs: FileSystem, path: Path, topics: frozenset[str]) -> Iterator[Path]:
    """Return the folders of current replicas; other entries are not looked at."""
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
        OSError: nobody can tell.
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


def _rate(options: Parsed) -> float:
    text = options.text("rate")
    try:
        rate = float(RATE_MB_S if text is None else text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise UsageError(f"Cannot parse argument '{text}' of option rate: MB/s above 0")
    return rate


def _lock(disk: Disk, locks: ExitStack, path: Path) -> bool:
    """Keep a broker from starting on a directory meanwhile; returns False if one runs on it."""
    try:
        if is_locked(path):
            return False
        lock = DirectoryLock(disk, path)
    except FormatError as error:
        raise AdminError(str(error)) from error
    except OSError as error:
        raise AdminError(f"{path} cannot be locked: {error.strerror}") from error
    locks.callback(lock.release)
    return True


def _text(verified: list[VerifiedDirectory], results: list[Mended]) -> Iterator[str]:
    for directory in verified:
        for replica in directory.damaged:
            for one in replica.damage:
                yield f"{replica.folder / one.file} at byte {one.position}: {_described(one)}"
        segments = sum(replica.segments for replica in directory.replicas)
        megabytes = sum(replica.size_bytes for replica in directory.replicas) / 1e6
        yield (
            f"{directory.path}: {len(directory.replicas)} replicas, {segments} segments, "
            f"{megabytes:.1f} MB read, {len(directory.damaged)} replicas damaged"
            f"{' (a broker is running on it)' if directory.in_use else ''}"
        )
    for result in results:
        yield result.text


def _described(one: Damage) -> str:
    if one.in_index:
        return one.problem
    if one.last_offset is None:
        return f"{one.problem}; offsets from {one.first_offset} on"
    return f"{one.problem}; offsets {one.first_offset} to {one.last_offset}"


def _as_json(verified: list[VerifiedDirectory], results: list[Mended]) -> dict[str, Any]:
    refusals = {result.folder: result.refusal for result in results}
    return {
        "directories": [
            {
                "path": str(directory.path),
                "inUse": directory.in_use,
                "replicas": len(directory.replicas),
                "segments": sum(replica.segments for replica in directory.replicas),
                "bytes": sum(replica.size_bytes for replica in directory.replicas),
                "damaged": [
                    {
                        "topic": replica.topic_partition.topic,
                        "partition": replica.topic_partition.partition,
                        "folder": str(replica.folder),
                        "mended": refusals.get(replica.folder, "") is None,
                        "refusal": refusals.get(replica.folder),
                        "damage": [
                            {
                                "file": one.file,
                                "position": one.position,
                                "problem": one.problem,
                                "firstOffset": one.first_offset,
                                "lastOffset": one.last_offset,
                                "index": one.in_index,
                            }
                            for one in replica.damage
                        ],
                    }
                    for replica in directory.damaged
                ],
            }
            for directory in verified
        ]
    }
