"""Finds out which directories can be used, before any log is touched.

A directory whose `meta.properties` cannot be read starts offline, and the others serve. What would
make a cluster go wrong ends the start instead: a directory that was never formatted (perhaps an
unmounted disk's empty mount point), one of another node or cluster, one that another process uses.

Source: `org.apache.kafka.metadata.properties.MetaPropertiesEnsemble`, `kafka.log.LogManager`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from broker.logdirs import clean_shutdown
from broker.logdirs.lock import DirectoryLock
from broker.logdirs.log_dir import LogDir
from broker.logdirs.log_dirs import LogDirs
from broker.logdirs.probe import directory_identity
from jbodlab import directory_id
from jbodlab.errors import ConfigError, FormatError, JbodlabError
from jbodlab.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId
from jbodlab.log import disk_errors, meta_properties
from jbodlab.log.filesystem import FileSystem, PosixFileSystem
from jbodlab.log.meta_properties import MetaProperties

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedLogDirs:
    """The directories of this broker, locked, and what they say of it."""

    log_dirs: LogDirs
    cluster_id: str
    node_id: BrokerId
    previous_broker_epoch: BrokerEpoch
    """Epoch of the last clean shutdown; -1 unless all directories agree on one."""
    locks: Mapping[Path, DirectoryLock]

    async def release_locks(self, timeout_s: float) -> None:
        """Let the locks go; those of failed or hanging directories end with the process."""
        releases = [
            asyncio.ensure_future(log_dir.run(self.locks[log_dir.path].release))
            for log_dir in self.log_dirs.watched
            if log_dir.is_online and log_dir.path in self.locks
        ]
        if releases:
            done, _ = await asyncio.wait(releases, timeout=timeout_s)
            for release in done:
                with contextlib.suppress(JbodlabError):
                    release.result()


def open_log_dirs(
    *,
    node_id: BrokerId,
    log_dirs: Sequence[Path],
    metadata_log_dir: Path,
    on_fatal: Callable[[str], None],
    fs_of: Callable[[Path], FileSystem] = lambda _path: PosixFileSystem(),
) -> OpenedLogDirs:
    """Check and lock the directories; logs are loaded later.

    Args:
        node_id: The configured `node.id`.
        log_dirs: `log.dirs`, in configured order.
        metadata_log_dir: One of them, or a separate directory.
        on_fatal: See `LogDirs`.
        fs_of: The disk under a directory.

    Raises:
        FormatError: a directory is not formatted, belongs elsewhere or is in use, the metadata
            directory cannot be read, or no directory is left.
        ConfigError: a directory is named twice.
    """
    _refuse_duplicates(log_dirs)
    ensemble = meta_properties.read_ensemble(PosixFileSystem(), log_dirs, metadata_log_dir)
    meta_properties.verify_ensemble(ensemble, node_id=node_id)
    normal = {
        path: _with_directory_id(fs_of(path), path, meta) for path, meta in ensemble.normal.items()
    }
    made = {
        path: _open(path, normal.get(path), ensemble.failed.get(path), fs_of(path))
        for path in dict.fromkeys((*log_dirs, metadata_log_dir))
    }
    locks = _lock([made[path] for path in made])
    metadata_dir = made[metadata_log_dir]
    if not metadata_dir.is_online:
        raise FormatError(
            f"Encountered I/O error in metadata log directory {metadata_log_dir}. "
            f"Cannot continue: {metadata_dir.cause}"
        )
    data_dirs = [made[path] for path in log_dirs]
    if not any(log_dir.is_online for log_dir in data_dirs):
        raise FormatError(
            "Shutdown broker because none of the specified log dirs from "
            f"{', '.join(map(str, log_dirs))} can be created or validated"
        )
    cluster_id = next(iter(normal.values())).cluster_id
    assert cluster_id is not None
    return OpenedLogDirs(
        log_dirs=LogDirs(data_dirs, metadata_dir=metadata_dir, on_fatal=on_fatal),
        cluster_id=cluster_id,
        node_id=node_id,
        previous_broker_epoch=_previous_broker_epoch(data_dirs),
        locks=locks,
    )


def _refuse_duplicates(log_dirs: Sequence[Path]) -> None:
    seen: dict[Path, Path] = {}
    for path in log_dirs:
        canonical = Path(os.path.realpath(path))
        if canonical in seen:
            raise ConfigError("log.dirs", path, f"Duplicate log directory found: {seen[canonical]}")
        seen[canonical] = path


def _with_directory_id(fs: FileSystem, path: Path, meta: MetaProperties) -> MetaProperties:
    """Give a directory of an older version an id, as the format tool would have done."""
    if meta.directory_id is not None:
        return meta
    meta = replace(meta, directory_id=directory_id.random_directory_id(os.urandom))
    try:
        meta_properties.write(fs, path, meta)
    except OSError as error:
        raise FormatError(
            f"Failed to write meta.properties of {path}: {disk_errors.describe(error)}"
        ) from error
    return meta


def _open(path: Path, meta: MetaProperties | None, failure: str | None, fs: FileSystem) -> LogDir:
    """Make the object of one directory; offline if it is not readable."""
    identity: tuple[int, int] | None = None
    if failure is None:
        try:
            identity = directory_identity(path)
            fs.listdir(path)
        except OSError as error:
            failure = disk_errors.describe(error)
    log_dir = LogDir(path, meta.directory_id if meta else None, fs=fs, identity=identity)
    if failure is not None:
        _start_offline(log_dir, failure)
    return log_dir


def _lock(log_dirs: Sequence[LogDir]) -> Mapping[Path, DirectoryLock]:
    """Lock the online directories; one whose lock file cannot be made goes offline."""
    locks: dict[Path, DirectoryLock] = {}
    for log_dir in log_dirs:
        if not log_dir.is_online:
            continue
        try:
            locks[log_dir.path] = DirectoryLock(log_dir.path)
        except OSError as error:
            _start_offline(log_dir, disk_errors.describe(error))
    return locks


def _start_offline(log_dir: LogDir, cause: str) -> None:
    log_dir.go_offline(cause)
    logger.error("%s", log_dir.error(), extra={**log_dir.log_fields(), "cause": cause})


def _previous_broker_epoch(log_dirs: Sequence[LogDir]) -> BrokerEpoch:
    if not all(log_dir.is_online for log_dir in log_dirs):
        return UNKNOWN_BROKER_EPOCH
    epochs = {clean_shutdown.read_broker_epoch(each.fs, each.path) for each in log_dirs}
    return epochs.pop() if len(epochs) == 1 else UNKNOWN_BROKER_EPOCH
