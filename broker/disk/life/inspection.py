"""Checks one repaired directory as a start checks all directories, and locks it.

A refused directory stays unchanged. Errors that stop a start (another node's disk, a duplicate
directory) are refusals here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from broker.bounds.limits import PROBES
from broker.disk.life.startup import with_directory_id
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.directory_lock import DirectoryLock
from jbodlab.storage.directory.directory_probe import probe
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.meta_properties import Ensemble, MetaProperties
from jbodlab.storage.directory.names import META_PROPERTIES_FILE
from jbodlab.vocabulary.errors import FormatError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId


class Inspected(NamedTuple):
    """A directory that passed the checks."""

    directory_id: DirectoryId | None
    identity: tuple[int, int]
    lock: DirectoryLock | None
    """None: the lock of the former life still holds."""


def inspect(
    fs: FileSystem,
    path: Path,
    *,
    node_id: BrokerId,
    cluster_id: str,
    metadata_log_dir: Path,
    ids: Mapping[Path, DirectoryId | None],
    identities: Mapping[tuple[int, int], Path],
    held: DirectoryLock | None,
    lock_it: Callable[[], DirectoryLock],
    random_bytes: Callable[[int], bytes],
) -> Inspected:
    """Check a directory as a start does, and lock it; blocks as long as the disk does.

    Args:
        fs: The disk.
        path: The directory.
        node_id: Ours.
        cluster_id: Ours.
        metadata_log_dir: The directory of the metadata log.
        ids: Ids of the other directories of this node, None where one is not known.
        identities: Device and inode of those that are online.
        held: The lock of the former life of this directory.
        lock_it: Locks it anew.
        random_bytes: For the id of a directory that has none.

    Raises:
        OSError: the directory cannot be used.
        FormatError: it is not, or not properly, formatted, belongs elsewhere, or is in use.
    """
    identity = fs.identity(path)
    if identity in identities:
        raise FormatError(
            f"Duplicate log directory found: same directory as {identities[identity]}"
        )
    try:
        meta, holds_metadata_log = meta_properties.look_into(fs, path)
    except FileNotFoundError as error:
        raise FormatError(
            f"No `{META_PROPERTIES_FILE}` found in {path}. If this is a new disk, format it first: "
            f"jbod-storage format --ignore-formatted -t {cluster_id} -c CONFIG"
        ) from error
    others = {
        other: MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=other_id)
        for other, other_id in ids.items()
    }
    meta_properties.verify_ensemble(
        Ensemble(
            metadata_log_dir=metadata_log_dir,
            failed={},
            normal={**others, path: meta},
            holding_metadata_log=frozenset({path} if holds_metadata_log else ()),
        ),
        node_id=node_id,
        cluster_id=cluster_id,
    )
    fs.listdir(path)
    # The lock is the process's: a second one on the same file would end with the first.
    lock = None if held is not None and held.is_at_its_path else lock_it()
    try:
        meta = with_directory_id(fs, path, meta_properties.read(fs, path), random_bytes)
        for _ in range(PROBES):
            probe(fs, path, identity)
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return Inspected(meta.directory_id, identity, lock)
