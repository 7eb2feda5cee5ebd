"""Loads the logs of all directories at start.

Each directory works on its own thread, so the slowest disk decides how long it takes. A directory
that fails while it is loaded goes offline, and the others serve. An entry that is no partition
directory (`lost+found`) is left alone with a warning; Apache Kafka refuses to start over it.

Source: `kafka.log.LogManager.loadLogs`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import msgspec

from broker.bounds.limits import LOAD_HANG_DEADLINE_S
from broker.disk.calls import NoSpaceError, ReplicaLostError, ShortageError
from broker.disk.directory import FoundLog, LogDir, LogDirEvent, LogDirs, LogDirState
from broker.disk.life import clean_shutdown
from broker.disk.upkeep import CONTENTS, watch_steps
from jbodlab.storage.directory import names
from jbodlab.storage.directory.checkpoints import read_offsets, write_offsets
from jbodlab.storage.directory.disk_errors import is_no_space
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.names import DirKind
from jbodlab.storage.directory.partition_metadata import read_topic_id
from jbodlab.storage.log.loaded_log import LoadedLog
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.log_loader import load_log
from jbodlab.vocabulary.errors import CorruptRecordError, LogDirError
from jbodlab.vocabulary.ids import TopicPartition

logger = logging.getLogger(__name__)


ReplicaOf = Callable[[UUID | None, int], TopicPartition | None]
"""Returns this broker's replica of a topic id and a partition; None if the metadata place none."""
LogConfigOf = Callable[[str], LogConfig]


class LoadedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A log found on a disk.

    Attributes:
        high_watermark: From the checkpoint of its directory, inside of the log.
        is_future: Whether it is a copy under construction by a move between directories.
    """

    log: LoadedLog
    log_dir: LogDir
    high_watermark: int
    is_future: bool


async def load_logs(
    log_dirs: LogDirs,
    replica_of: ReplicaOf,
    log_config_of: LogConfigOf,
    *,
    is_ours: Callable[[TopicPartition], bool] = lambda _: True,
    hang_deadline_s: float = LOAD_HANG_DEADLINE_S,
) -> list[LoadedReplica]:
    """Load the logs of all online directories, at the same time.

    Args:
        log_dirs: The directories; each becomes ONLINE, or goes offline.
        is_ours: Whether this broker has a replica of a partition with this name. A directory that
            only looks like one, and holds no log, is a foreign entry. Called on several threads.
        hang_deadline_s: Longest time for one step on a disk that is being loaded from.
        replica_of: Called with the topic id of a directory (None: none on the disk) and its
            partition; one that is of no replica is renamed and kept. Called on several threads.
        log_config_of: Settings of a topic's logs, by its name. Called on several threads.

    Returns:
        All logs of current and future replicas; there may be several of one replica, see
        `broker.placement.found_replicas`.
    """
    loading = log_dirs.online()
    for log_dir in loading:
        log_dir.handle(LogDirEvent.LOAD)
    calls = [
        log_dir.run(partial(_load_directory, log_dir, replica_of, log_config_of, is_ours))
        for log_dir in loading
    ]
    watch = asyncio.create_task(
        watch_steps(log_dirs, lambda: loading, int(hang_deadline_s * 1000)), name="watch loading"
    )
    try:
        results = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        watch.cancel()
    found = {
        log_dir: _loaded(log_dirs, log_dir, result)
        for log_dir, result in zip(loading, results, strict=True)
    }
    for log_dir, replicas in found.items():
        if replicas is not None and log_dir.is_online:
            log_dir.handle(LogDirEvent.LOADED)
    return [replica for replicas in found.values() for replica in replicas or ()]


def _loaded(
    log_dirs: LogDirs, log_dir: LogDir, result: list[FoundLog] | BaseException
) -> list[LoadedReplica] | None:
    """Return what was found in a directory; None if it went offline over it."""
    if isinstance(result, NoSpaceError):
        # Without room to repair what a crash has left, nobody can tell what the logs hold.
        log_dirs.fail(log_dir, result.cause)
        return None
    if isinstance(result, LogDirError):
        return None
    if isinstance(result, BaseException):
        raise result
    log_dir.replica_count = len(result)
    logger.info("loaded %d logs", len(result), extra=log_dir.log_fields())
    return [
        LoadedReplica(
            log=log,
            log_dir=log_dir,
            high_watermark=high_watermark,
            is_future=log.files.is_future,
        )
        for log, high_watermark in result
    ]


async def load_revived(
    log_dirs: LogDirs,
    log_dir: LogDir,
    replica_of: ReplicaOf,
    log_config_of: LogConfigOf,
    *,
    is_ours: Callable[[TopicPartition], bool],
    in_use: Callable[[TopicPartition], bool] = lambda _: False,
) -> list[FoundLog]:
    """Load the logs of one directory that comes back, while all others serve.

    Args:
        log_dirs: The directories; this one is not among them yet.
        log_dir: In state RECOVERING; it goes offline, and nobody else is told, if its disk fails.
        replica_of: As in `load_logs`, as are the others.
        log_config_of: Settings of a topic's logs.
        is_ours: Whether this broker has a replica of a partition with this name.
        in_use: Whether a replica has another log already, so that one found here is a stray; its
            future replicas are not.

    Raises:
        LogDirError: the disk failed.
    """
    assert log_dir.state is LogDirState.RECOVERING
    call = log_dir.run(
        partial(_load_directory, log_dir, replica_of, log_config_of, is_ours, in_use)
    )
    watch = asyncio.create_task(
        watch_steps(log_dirs, lambda: [log_dir], int(LOAD_HANG_DEADLINE_S * 1000)),
        name=f"watch loading of {log_dir.path}",
    )
    try:
        return await call
    except (NoSpaceError, ShortageError) as error:
        log_dirs.fail(log_dir, error.cause)
        raise log_dir.error() from error
    finally:
        watch.cancel()


def _load_directory(
    log_dir: LogDir,
    replica_of: ReplicaOf,
    log_config_of: LogConfigOf,
    is_ours: Callable[[TopicPartition], bool],
    in_use: Callable[[TopicPartition], bool] = lambda _: False,
) -> list[FoundLog]:
    """Load one directory; on its thread."""
    fs, path = log_dir.fs, log_dir.path
    clean = clean_shutdown.take(fs, path)
    replicas = _replicas(fs, path, replica_of, is_ours, in_use, log_dir.environment.new_hex)
    if not clean:
        _forget_cached(fs, replicas, log_config_of)
    found = {name: _read_checkpoint(fs, path / name) for name in CONTENTS}
    points = found[names.RECOVERY_POINT_FILE]
    starts = found[names.LOG_START_OFFSET_FILE]
    high_watermarks = found[names.HIGH_WATERMARK_FILE]
    cleaned_to = found[names.CLEANER_OFFSET_FILE]
    loaded: list[FoundLog] = []
    try:
        for folder, topic_partition in replicas:
            try:
                log = load_log(
                    fs,
                    folder,
                    topic_partition,
                    log_config_of(topic_partition.topic),
                    log_dir.files,
                    clean=clean,
                    recovery_point=points.get(topic_partition, 0),
                    log_start_offset=starts.get(topic_partition),
                    cleaned_to=cleaned_to.get(topic_partition),
                )
                sync_if_due(fs, log)
            except ReplicaLostError as error:
                logger.warning("a replica was removed while its log was being loaded: %s", error)
                continue
            high_watermark = high_watermarks.get(topic_partition, 0)
            high_watermark = log.state.bounded(high_watermark)
            loaded.append(FoundLog(log, high_watermark))
        _lower_checkpoints(fs, path, found, loaded)
        _create_missing_checkpoints(fs, path)
    except BaseException as error:
        for log, _ in loaded:
            log.files.abandon()
        if isinstance(error, CorruptRecordError):
            # A small file that the broker itself writes cannot be read: as good as an I/O error.
            raise OSError(errno.EIO, str(error), str(error.path)) from error
        raise
    return loaded


def _forget_cached(
    fs: FileSystem, replicas: Sequence[tuple[Path, TopicPartition]], log_config_of: LogConfigOf
) -> None:
    """Have batches read from the disk, of topics that have each of them synced.

    A sync may have failed before: what is not on the disk was never acknowledged. Of other topics
    it may have been: what the cache has of them is better than nothing.
    """
    for folder, topic_partition in replicas:
        if log_config_of(topic_partition.topic).flush_messages > 1:
            continue
        with suppress(ReplicaLostError, FileNotFoundError):
            for file in names.with_suffix(fs.listdir(folder), names.LOG_SUFFIX):
                fs.forget_cached(folder / file)


def sync_if_due(fs: FileSystem, log: LoadedLog) -> None:
    """Sync what was found behind the recovery point, where a topic has each batch synced.

    It may be in the page cache only. It will be shown, and a producer that sends it again is told
    that it is there.
    """
    state = log.state
    request = state.due_sync()
    if request is not None:
        try:
            log.files.sync(fs, request)
        except BaseException:
            log.files.abandon()
            raise
        state.synced(request)


def _lower_checkpoints(
    fs: FileSystem,
    path: Path,
    found: Mapping[str, Mapping[TopicPartition, int]],
    loaded: Sequence[FoundLog],
) -> None:
    """Replace what lies above what there is, or where a cut may be made, before anything is.

    Offsets of a log that is not there any more go too: another one of its name may come.
    """
    for name, content in CONTENTS.items():
        offsets = content(loaded)
        if any(offset < found[name].get(key, 0) for key, offset in offsets.items()):
            write_offsets(fs, path / name, offsets)
        elif found[name].keys() - offsets.keys():
            try:
                write_offsets(fs, path / name, offsets)
            except OSError as error:
                if not is_no_space(error):
                    raise
                # Nothing is created there either, as long as that is so.
                logger.warning("%s still lists logs that no longer exist: %s", path / name, error)


def _replicas(
    fs: FileSystem,
    path: Path,
    replica_of: ReplicaOf,
    is_ours: Callable[[TopicPartition], bool],
    in_use: Callable[[TopicPartition], bool],
    new_hex: Callable[[], str],
) -> list[tuple[Path, TopicPartition]]:
    """Return the directories to load, and whose they are; puts strays aside, and empty copies."""
    wanted = []
    for name in fs.listdir(path):
        if name in (names.METADATA_DIR_NAME, names.REMOTE_INDEX_CACHE_DIR_NAME):
            continue
        if not fs.is_dir(path / name):
            continue
        try:
            parsed = names.parse_partition_dir(name)
        except ValueError:
            logger.warning("ignoring %s: not a partition directory", path / name)
            continue
        if parsed.kind is DirKind.DELETE:
            continue
        if parsed.kind is DirKind.STRAY and not parsed.is_moved:
            logger.warning("ignoring %s: a stray replica; it is kept on disk", path / name)
            continue
        topic_id = _topic_id(fs, path / name)
        if (
            topic_id is None
            and not is_ours(parsed.topic_partition)
            and not names.with_suffix(fs.listdir(path / name), names.LOG_SUFFIX)
        ):
            if parsed.kind is DirKind.FUTURE:
                # A copy that was just begun when the power failed; nobody will ask for it.
                removed = names.delete_dir(parsed.topic_partition, new_hex())
                fs.rename(path / name, path / removed)
            else:
                logger.warning("ignoring %s: it contains no log", path / name)
            continue
        topic_partition = replica_of(topic_id, parsed.topic_partition.partition)
        if (
            topic_partition is None
            or not parsed.may_be_of(topic_partition)
            or (parsed.kind is not DirKind.FUTURE and in_use(topic_partition))
        ):
            stray = names.stray_dir(parsed.topic_partition, new_hex())
            logger.warning(
                "%s does not belong in this directory; renamed it to %s", path / name, stray
            )
            fs.rename(path / name, path / stray)
            continue
        wanted.append((path / name, topic_partition))
    return wanted


def _topic_id(fs: FileSystem, folder: Path) -> UUID | None:
    """Return the topic id of a folder; one that cannot be told costs this replica, as none does."""
    try:
        return read_topic_id(fs, folder / names.PARTITION_METADATA_FILE)
    except CorruptRecordError as error:
        logger.error("cannot read the topic id of a replica: %s", error)
        return None


def _read_checkpoint(fs: FileSystem, path: Path) -> Mapping[TopicPartition, int]:
    """Read offsets; a file of another version has none.

    Of a log without a recovery point, high watermark or cleaner offset all is looked at again. One
    without a log start begins with its first segment.
    """
    try:
        return read_offsets(fs, path)
    except CorruptRecordError as error:
        logger.warning("ignoring a damaged checkpoint: %s", error)
        return {}


def _create_missing_checkpoints(fs: FileSystem, path: Path) -> None:
    for name in (
        names.RECOVERY_POINT_FILE,
        names.LOG_START_OFFSET_FILE,
        names.HIGH_WATERMARK_FILE,
        names.CLEANER_OFFSET_FILE,
    ):
        if not fs.exists(path / name):
            fs.write_bytes(path / name, b"", sync=False)
