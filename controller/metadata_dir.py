"""The metadata directory of a controller: checked, locked and replayed.

Opening is not leading: no record is written here. `controller.lead.leadership` does that, after an
election. Everything here blocks.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from controller.config import ControllerConfig
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.log import quorum_state, snapshots
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.quorum_state import QuorumState
from jbodlab.raft.voters import UNKNOWN_DIRECTORY
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory import meta_properties, names
from jbodlab.storage.directory.directory_lock import DirectoryLock
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.vocabulary.errors import CorruptRecordError, FormatError
from jbodlab.vocabulary.ids import DirectoryId, LeaderEpoch

logger = logging.getLogger(__name__)


class OpenedDir(msgspec.Struct, frozen=True, kw_only=True):
    """An open metadata directory.

    Attributes:
        directory_id: Id of the directory; zero if it was formatted without one.
        loader: The replayed log, all of which is on the disk. In a quorum it may have an end that
            is not committed: only the newest snapshot is loaded.
        stored: Content of quorum-state; None if there is no such file.
        epoch: The highest leader epoch that was seen here; 0 before the first.
        replayed_bytes: Size of the log behind its newest snapshot.
        lock: Ends with the process at the latest.
    """

    cluster_id: str
    directory_id: DirectoryId
    log: MetadataLog
    loader: MetadataLoader
    stored: QuorumState | None
    epoch: LeaderEpoch
    replayed_bytes: int
    lock: DirectoryLock


def open_metadata_dir(
    config: ControllerConfig, environment: Environment | None = None
) -> OpenedDir:
    """Open and replay the log in the metadata directory.

    Args:
        config: The controller's.
        environment: Clock and disk; those of the machine by default.

    Raises:
        FormatError: the directory is not formatted for this node, or another process uses it.
        CorruptRecordError: the log is damaged where valid records follow; see `MetadataLog.open`.
        ReplayError, DecodeError: its records are none that lead to a state.
        OSError: the disk.
    """
    environment = environment or system_environment()
    directory = Path(config.node.metadata_log_dir)
    fs = environment.fs_of(directory)
    meta = _meta_properties(config, fs, directory)
    lock = DirectoryLock(fs, directory)
    settings = config.metadata_log
    # It is written before the first batch of an epoch is.
    old = quorum_state.read_quorum_state(directory / names.METADATA_DIR_NAME, fs=fs)
    log = MetadataLog.open(
        directory,
        fs=fs,
        segment_bytes=settings.effective_segment_bytes,
        segment_ms=settings.segment_ms,
        epoch_max=old.leader_epoch if old is not None else None,
    )
    loader, replayed_bytes = _load(log, is_committed=config.quorum.is_alone)
    log.clean(settings, environment.wall_ms())
    return OpenedDir(
        cluster_id=meta.cluster_id or "",
        directory_id=meta.directory_id or UNKNOWN_DIRECTORY,
        log=log,
        loader=loader,
        stored=old,
        epoch=LeaderEpoch(max(old.leader_epoch if old is not None else 0, log.last_epoch, 0)),
        replayed_bytes=replayed_bytes,
        lock=lock,
    )


def _meta_properties(config: ControllerConfig, fs: FileSystem, directory: Path) -> MetaProperties:
    """Return what the directory was formatted for.

    A controller keeps nothing in `log.dirs`, so only the metadata directory must be readable.
    """
    ensemble = meta_properties.read_ensemble(fs, [directory], directory)
    if directory in ensemble.failed:
        reason = ensemble.failed[directory]
        raise FormatError(
            f"Encountered I/O error in metadata log directory {directory}. Cannot continue: "
            f"{reason}"
        )
    if directory in ensemble.empty:
        raise FormatError(
            f"No `{names.META_PROPERTIES_FILE}` found in {directory} "
            "(have you run `jbod-storage format` to format the directory?)"
        )
    meta_properties.verify_ensemble(ensemble, node_id=config.node.node_id)
    return ensemble.normal[directory]


def _load(log: MetadataLog, *, is_committed: bool) -> tuple[MetadataLoader, int]:
    """Return the replayed log, and how many bytes of it are behind the newest snapshot.

    Args:
        log: The log.
        is_committed: Whether all of it is, so that all of it is replayed.
    """
    loader = MetadataLoader()
    snapshot = snapshots.take_latest(log.fs, log.directory)
    if snapshot is not None:
        loader.load_snapshot(
            snapshot.records, snapshot.end_offset, snapshot.epoch, snapshot.timestamp_ms
        )
    if loader.next_offset < log.start_offset:
        raise CorruptRecordError(
            log.directory,
            0,
            f"no snapshot covers the metadata before the log's first offset {log.start_offset}",
        )
    first_offset = loader.next_offset
    replayed_bytes = _replay(log, loader) if is_committed else 0
    logger.info(
        "replayed the metadata log",
        extra={
            "start_offset": log.start_offset,
            "end_offset": log.end_offset,
            "replayed_records": loader.next_offset - first_offset,
        },
    )
    return loader, replayed_bytes


def _replay(log: MetadataLog, loader: MetadataLoader) -> int:
    """Load the rest of a log; returns its size in bytes."""
    size = 0
    while data := log.read(max(loader.next_offset, log.start_offset)):
        size += len(data)
        for batch in read_batches(data):
            loader.load(batch)
    return size
