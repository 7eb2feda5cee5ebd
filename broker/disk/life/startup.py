"""Finds out which directories can be used, before any log is touched.

A directory starts offline if it cannot be read, does not respond, is not mounted, or has a damaged
`meta.properties`; the others serve. Disks fail like this at boot. Nothing is formatted or created
there. Errors that would endanger a cluster stop the start: a directory of another node or cluster,
one that another process uses, and the loss of the metadata directory or of all others. (Apache
Kafka does not start with an empty mount point either.)

Source: `org.apache.kafka.metadata.properties.MetaPropertiesEnsemble`, `kafka.log.LogManager`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

import msgspec

from broker.bounds.limits import START_DEADLINE_S
from broker.disk.calls import run_aside
from broker.disk.condition import hung
from broker.disk.directory import LogDir, LogDirs
from broker.disk.life import clean_shutdown
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory import disk_errors, meta_properties
from jbodlab.storage.directory.directory_lock import DirectoryLock
from jbodlab.storage.directory.filesystem import Disk, FileSystem
from jbodlab.storage.directory.meta_properties import Ensemble, MetaProperties
from jbodlab.vocabulary import directory_id
from jbodlab.vocabulary.errors import ConfigError, FormatError, JbodlabError
from jbodlab.vocabulary.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, DirectoryId
from jbodlab.vocabulary.limits import OPEN_FILES_MAX
from jbodlab.vocabulary.threads import Threads

logger = logging.getLogger(__name__)

T = TypeVar("T")


class OpenedLogDirs(msgspec.Struct, frozen=True, kw_only=True):
    """The directories of this broker, locked, and what they say of it."""

    log_dirs: LogDirs
    cluster_id: str
    node_id: BrokerId
    previous_broker_epoch: BrokerEpoch
    """Epoch of the last clean shutdown; -1 unless all directories agree on one."""
    locks: dict[Path, DirectoryLock]
    """By path; the revival of a directory may replace its lock."""

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


async def open_log_dirs(
    *,
    node_id: BrokerId,
    log_dirs: Sequence[Path],
    metadata_log_dir: Path,
    on_fatal: Callable[[str], None],
    environment: Environment | None = None,
    open_files_max: int = OPEN_FILES_MAX,
    deadline_s: float = START_DEADLINE_S,
) -> OpenedLogDirs:
    """Check and lock the directories; logs are loaded later.

    Args:
        node_id: The configured `node.id`.
        log_dirs: `log.dirs`, in configured order.
        metadata_log_dir: One of them, or a separate directory.
        on_fatal: See `LogDirs`.
        environment: The disks under the directories, and what works in them goes by.
        open_files_max: Most `.log` files that each directory keeps open.
        deadline_s: Longest time for a directory to answer; one that does not starts offline.

    Raises:
        OSError: the process lacks descriptors or memory.
        FormatError: a directory belongs elsewhere or is in use, the metadata directory is not
            formatted or cannot be read, or no directory is left.
        ConfigError: a directory is named twice.
    """
    environment = environment or system_environment()
    paths = list(dict.fromkeys((*log_dirs, metadata_log_dir)))
    looks = await in_parallel(
        paths, lambda path: _look(environment.fs_of(path), path), deadline_s, environment.threads
    )
    _refuse_duplicates(log_dirs, looks)
    fs = environment.fs_of(metadata_log_dir)
    found = meta_properties.read_ensemble(
        fs, log_dirs, metadata_log_dir, look=lambda path: looks[path]().found
    )
    ensemble = meta_properties.without_lost_disks(found)
    meta_properties.verify_ensemble(ensemble, node_id=node_id)
    normal = ensemble.normal
    entered = await in_parallel(
        list(normal),
        lambda path: _enter(environment, path, normal[path]),
        deadline_s,
        environment.threads,
    )
    opened = {
        path: _open(path, environment, open_files_max, ensemble, entered.get(path))
        for path in paths
    }
    made = {path: log_dir for path, (log_dir, _) in opened.items()}
    states = {path: state for path, (_, state) in opened.items() if state is not None}
    _refuse_loss(made, log_dirs, metadata_log_dir)
    cluster_id = next(iter(ensemble.normal.values())).cluster_id
    assert cluster_id is not None
    return OpenedLogDirs(
        log_dirs=LogDirs(
            [made[path] for path in log_dirs],
            metadata_dir=made[metadata_log_dir],
            on_fatal=on_fatal,
        ),
        cluster_id=cluster_id,
        node_id=node_id,
        previous_broker_epoch=_common(
            [states[path].broker_epoch if path in states else None for path in log_dirs]
        ),
        locks={path: state.lock for path, state in states.items()},
    )


def _open(
    path: Path,
    environment: Environment,
    open_files_max: int,
    ensemble: Ensemble,
    entered: Callable[[], _Entered] | None,
) -> tuple[LogDir, _Entered | None]:
    """Return a directory, offline unless it was entered."""
    if entered is None:
        log_dir = LogDir(path, None, environment=environment, open_files_max=open_files_max)
        _start_offline(log_dir, ensemble.failed[path])
        return log_dir, None
    try:
        state = entered()
    except OSError as error:
        if disk_errors.is_shortage(error):
            # It would be told as lost, and is healthy.
            raise
        log_dir = LogDir(
            path,
            ensemble.normal[path].directory_id,
            environment=environment,
            open_files_max=open_files_max,
        )
        _start_offline(log_dir, disk_errors.describe(error))
        return log_dir, None
    log_dir = LogDir(
        path,
        state.directory_id,
        environment=environment,
        identity=state.identity,
        open_files_max=open_files_max,
    )
    return log_dir, state


def _refuse_loss(
    made: Mapping[Path, LogDir], log_dirs: Sequence[Path], metadata_log_dir: Path
) -> None:
    """Refuse to start without the metadata directory, or without any other."""
    metadata_dir = made[metadata_log_dir]
    if not metadata_dir.is_online:
        raise FormatError(
            f"Encountered I/O error in metadata log directory {metadata_log_dir}. "
            f"Cannot continue: {metadata_dir.cause}"
        )
    if not any(made[path].is_online for path in log_dirs):
        raise FormatError(
            "Shutdown broker because none of the specified log dirs from "
            f"{', '.join(map(str, log_dirs))} can be created or validated"
        )


class _Look(NamedTuple):
    """Findings of the first look into a directory."""

    canonical: Path
    found: tuple[MetaProperties, bool]


class _Entered(NamedTuple):
    """A directory that was found usable, and is locked."""

    directory_id: DirectoryId | None
    identity: tuple[int, int]
    lock: DirectoryLock
    broker_epoch: BrokerEpoch


def _look(fs: Disk, path: Path) -> _Look:
    return _Look(fs.canonical(path), meta_properties.look_into(fs, path))


def _enter(environment: Environment, path: Path, meta: MetaProperties) -> _Entered:
    """Do what may fail with one directory alone.

    Raises:
        OSError: the directory is not usable.
        FormatError: it is in use, or cannot be given an id.
    """
    fs = environment.fs_of(path)
    identity = fs.identity(path)
    if not _says(fs, path, meta):
        # It hung, and another disk was put in its place.
        raise FileNotFoundError(
            errno.ENOENT, "another directory was mounted or created at this path", str(path)
        )
    fs.listdir(path)
    lock = DirectoryLock(fs, path)
    meta = with_directory_id(fs, path, meta, environment.random_bytes)
    return _Entered(meta.directory_id, identity, lock, clean_shutdown.read_broker_epoch(fs, path))


def _says(fs: FileSystem, path: Path, meta: MetaProperties) -> bool:
    try:
        return meta_properties.read(fs, path) == meta
    except FormatError:
        return False


async def in_parallel(
    paths: Sequence[Path], function: Callable[[Path], T], deadline_s: float, threads: Threads
) -> Mapping[Path, Callable[[], T]]:
    """Do something with several directories at the same time, without waiting for a dead one.

    Returns:
        For each path what gives the result, or raises what `function` raised: `TimeoutError`,
        which is an `OSError`, if it did not come back in time.
    """
    calls = {path: run_aside(partial(function, path), f"look at {path}", threads) for path in paths}
    if calls:
        await asyncio.wait(calls.values(), timeout=deadline_s)
    silent = TimeoutError(errno.ETIMEDOUT, hung(f"{deadline_s:g} s"))
    # Decided once: one that answers late must not be half in and half out.
    return {
        path: call.result if call.done() else partial(_raise, silent)
        for path, call in calls.items()
    }


def _raise(error: BaseException) -> NoReturn:
    raise error


def _refuse_duplicates(log_dirs: Sequence[Path], looks: Mapping[Path, Callable[[], _Look]]) -> None:
    """Refuse a directory that is named twice, be it by a link to it."""
    seen: dict[Path, Path] = {}
    for path in log_dirs:
        try:
            canonical = looks[path]().canonical
        except (OSError, FormatError):
            # Whether it is missing or cannot be read is judged later.
            canonical = path
        if canonical in seen:
            raise ConfigError("log.dirs", path, f"Duplicate log directory found: {seen[canonical]}")
        seen[canonical] = path


def with_directory_id(
    fs: FileSystem, path: Path, meta: MetaProperties, random_bytes: Callable[[int], bytes]
) -> MetaProperties:
    """Give a directory of an older version an id, as the format tool would have done.

    Raises:
        FormatError: it has none, and none can be written.
    """
    if meta.directory_id is not None:
        return meta
    meta = replace(meta, directory_id=directory_id.random_directory_id(random_bytes))
    try:
        meta_properties.write(fs, path, meta)
    except OSError as error:
        raise FormatError(
            f"Failed to write meta.properties of {path}: {disk_errors.describe(error)}"
        ) from error
    return meta


def _start_offline(log_dir: LogDir, cause: str) -> None:
    log_dir.go_offline(cause)
    logger.error("%s", log_dir.error(), extra={**log_dir.log_fields(), "cause": cause})


def _common(epochs: Sequence[BrokerEpoch | None]) -> BrokerEpoch:
    """Return what all directories say; one that is offline says nothing."""
    first = epochs[0]
    return first if first is not None and set(epochs) == {first} else UNKNOWN_BROKER_EPOCH
