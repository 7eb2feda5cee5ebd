"""The metadata directory of a controller: checked, locked, replayed, and made ready for records.

Everything here blocks; it runs once, before anybody can ask for anything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import msgspec

from controller.activation import activation_records, registration_records
from controller.config import ControllerConfig
from controller.features import levels_to_lower
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log import quorum_state, snapshots
from jbodlab.metadata.log.batches import control_batch, data_batch, read_batches
from jbodlab.metadata.log.cleaning import clean
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.quorum_state import QuorumState
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.control_records import LeaderChangeMessage, Voter
from jbodlab.metadata.records.features import NOT_BUILT
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import FEATURE_NAME
from jbodlab.runtime.machine import system_environment
from jbodlab.runtime.outside import Outside
from jbodlab.storage.directory import meta_properties, names
from jbodlab.storage.directory.directory_lock import DirectoryLock
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.errors import CorruptRecordError, FormatError
from jbodlab.vocabulary.ids import LeaderEpoch

logger = logging.getLogger(__name__)


class OpenedDir(msgspec.Struct, frozen=True, kw_only=True):
    """A metadata directory whose log this process leads.

    Attributes:
        image: State after the last record of the log, which is on the disk.
        replayed_bytes: Size of the log behind its newest snapshot at the start.
        lock: Ends with the process at the latest.
    """

    cluster_id: str
    log: MetadataLog
    image: MetadataImage
    epoch: LeaderEpoch
    replayed_bytes: int
    lock: DirectoryLock


def open_metadata_dir(
    config: ControllerConfig, incarnation_id: UUID, outside: Outside | None = None
) -> OpenedDir:
    """Begin a new leader epoch on the log in the metadata directory.

    Args:
        config: The controller's.
        incarnation_id: Of this process.
        outside: Clock and disk; those of the machine by default.

    Raises:
        FormatError: the directory is not formatted for this node, another process uses it, or the
            log has a feature level that is not supported.
        CorruptRecordError: the log is damaged where valid records follow; see `MetadataLog.open`.
        ReplayError, DecodeError: its records are none that lead to a state.
        OSError: the disk.
    """
    outside = outside or system_environment()
    directory = Path(config.node.metadata_log_dir)
    fs = outside.fs_of(directory)
    cluster_id = _cluster_id(config, fs, directory)
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
    epoch = LeaderEpoch(max(old.leader_epoch if old is not None else 0, log.last_epoch, 0) + 1)
    image, replayed_bytes = _lead(config, incarnation_id, directory, log, epoch, outside.wall_ms)
    clean(log, settings, outside.wall_ms())
    return OpenedDir(
        cluster_id=cluster_id,
        log=log,
        image=image,
        epoch=epoch,
        replayed_bytes=replayed_bytes,
        lock=lock,
    )


def _cluster_id(config: ControllerConfig, fs: FileSystem, directory: Path) -> str:
    """Return the cluster that the directories were formatted for.

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
    cluster_id = ensemble.normal[directory].cluster_id
    assert cluster_id is not None
    return cluster_id


def _lead(
    config: ControllerConfig,
    incarnation_id: UUID,
    directory: Path,
    log: MetadataLog,
    epoch: LeaderEpoch,
    wall_ms: Callable[[], int],
) -> tuple[MetadataImage, int]:
    """Replay the log, then write the first records of a new leader epoch.

    Returns:
        The state, and how many bytes were replayed.
    """
    loader, replayed_bytes, replayed_records = _load(log)
    node_id = config.node.node_id
    quorum_state.write_quorum_state(
        log.directory,
        QuorumState(leader_id=node_id, leader_epoch=epoch, voters=(node_id,)),
        fs=log.fs,
    )

    def append(data: bytes) -> None:
        log.append(data)
        for batch in read_batches(data):
            loader.load(batch)

    def append_records(records: list[VersionedRecord]) -> None:
        if records:
            append(
                data_batch(records, base_offset=log.end_offset, epoch=epoch, timestamp_ms=wall_ms())
            )

    voters = (Voter(voter_id=node_id),)
    change = LeaderChangeMessage(leader_id=node_id, voters=voters, granting_voters=voters)
    append(control_batch(change, base_offset=log.end_offset, epoch=epoch, timestamp_ms=wall_ms()))
    # Later it counts for nothing, whatever has become of it.
    is_fresh = FEATURE_NAME not in loader.image.features.levels
    bootstrap = _bootstrap(log.fs, directory) if is_fresh else []
    _warn_of_lowered(loader.image, bootstrap)
    append_records(activation_records(loader.image, loader.transaction_is_open, bootstrap))
    level = loader.image.features.metadata_version
    append_records(registration_records(level, node_id, incarnation_id, config.listener))
    log.flush()
    logger.info(
        "active controller of the metadata log",
        extra={
            "leader_epoch": epoch,
            "start_offset": log.start_offset,
            "end_offset": log.end_offset,
            "metadata_version": level,
            "replayed_records": replayed_records,
        },
    )
    return loader.image, replayed_bytes


def _warn_of_lowered(image: MetadataImage, bootstrap: list[VersionedRecord]) -> None:
    """Say which features another program has finalized that this one does not have."""
    levels = dict(image.features.levels) or {
        record.name: record.feature_level
        for record, _ in bootstrap
        if isinstance(record, FeatureLevelRecord)
    }
    for name, level in levels_to_lower(levels).items():
        logger.warning(
            "lowering a feature: %s not supported",
            NOT_BUILT[name],
            extra={"feature": name, "from_level": levels[name], "to_level": level},
        )


def _load(log: MetadataLog) -> tuple[MetadataLoader, int, int]:
    """Return the state of the log, and how many bytes and records behind a snapshot led to it."""
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
    first_offset, size = loader.next_offset, 0
    while data := log.read(max(loader.next_offset, log.start_offset)):
        size += len(data)
        for batch in read_batches(data):
            loader.load(batch)
    return loader, size, loader.next_offset - first_offset


def _bootstrap(fs: FileSystem, directory: Path) -> list[VersionedRecord]:
    path = directory / names.BOOTSTRAP_CHECKPOINT_FILE
    return snapshots.read_bootstrap(path, fs=fs) if fs.exists(path) else []
