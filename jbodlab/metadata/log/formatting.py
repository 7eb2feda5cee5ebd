"""Gives directories their ids and the first records of the metadata log.

A directory counts as formatted when it has `meta.properties`; that is written last and atomically,
so an interruption leaves directories that are formatted or not, never half.

Source: `org.apache.kafka.metadata.storage.Formatter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from jbodlab.metadata.log.snapshots import snapshot_bytes, snapshot_name, write_bootstrap
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.control_records import ControlRecord
from jbodlab.metadata.records.features import default_levels
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import FEATURE_NAME, versioned
from jbodlab.metadata.records.schema import Record
from jbodlab.runtime.environment import Environment
from jbodlab.runtime.machine import system_environment
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary import directory_id
from jbodlab.vocabulary.errors import FormatError
from jbodlab.vocabulary.ids import DirectoryId


class FirstVoters(NamedTuple):
    """The voters that a metadata directory is formatted with.

    Attributes:
        directory: The metadata directory.
        directory_id: Its id among the voters; None where this node is none of them.
        records: Level of kraft.version and voters, from `jbodlab.raft.batches.quorum_records`.
    """

    directory: Path
    directory_id: DirectoryId | None
    records: Sequence[ControlRecord]


def format_directories(
    directories: Sequence[Path],
    *,
    cluster_id: str,
    node_id: int,
    level: int,
    features: Mapping[str, int] | None = None,
    security: Sequence[Record] = (),
    used: set[DirectoryId] | None = None,
    first_voters: FirstVoters | None = None,
    tell: Callable[[Path], None] = lambda _: None,
    environment: Environment | None = None,
) -> None:
    """Format directories of one node, creating those that are missing.

    Args:
        directories: Each without `meta.properties`.
        cluster_id: Id of the cluster, as text.
        node_id: Id of the node.
        level: `metadata.version` that the cluster starts with.
        features: Levels of other features; by default those of a new cluster.
        security: Credentials of users and access control entries, from the first start on.
        used: Ids that the node's other directories have.
        first_voters: Of a quorum that keeps its voters in the log; None where nobody is named yet.
        tell: Called with each directory before it is formatted.
        environment: Disks, clock and ids; those of the machine by default.

    Raises:
        FormatError: a directory could not be written.
    """
    environment = environment or system_environment()
    levels = default_levels(level) if features is None else features
    records = [
        versioned(FeatureLevelRecord(name=name, feature_level=number), level)
        for name, number in ((FEATURE_NAME, level), *sorted(levels.items()))
    ]
    records += [versioned(each, level) for each in security]
    taken = set(used or ())
    for directory in directories:
        voters = first_voters if first_voters and first_voters.directory == directory else None
        found = voters.directory_id if voters else None
        while found is None or found in taken:
            found = directory_id.random_directory_id(environment.random_bytes)
        taken.add(found)
        tell(directory)
        meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=found)
        try:
            _format_one(directory, meta, records, voters, environment)
        except OSError as error:
            raise FormatError(
                f"Error while writing meta.properties file {directory}: {error}"
            ) from error


def _format_one(
    directory: Path,
    meta: MetaProperties,
    records: Sequence[VersionedRecord],
    voters: FirstVoters | None,
    environment: Environment,
) -> None:
    fs, now_ms = environment.fs_of(directory), environment.wall_ms()
    _make_directory(fs, directory)
    write_bootstrap(directory / "bootstrap.checkpoint", records, created_ms=now_ms, fs=fs)
    if voters is not None:
        log = directory / METADATA_DIR_NAME
        _make_directory(fs, log)
        data = snapshot_bytes((), epoch=0, timestamp_ms=0, created_ms=now_ms, quorum=voters.records)
        fs.write_atomically(log / snapshot_name(0, 0), data)
    meta_properties.write(fs, directory, meta, comments=_comments(now_ms))


def _make_directory(fs: FileSystem, directory: Path) -> None:
    """Create a directory with its parents, durably."""
    missing = [path for path in (directory, *directory.parents) if not fs.exists(path)]
    fs.mkdir(directory, parents=True, exist_ok=True)
    for path in missing:
        fs.fsync_dir(path.parent)


def _comments(now_ms: int) -> Sequence[str]:
    """Return the comment lines that Java writes above properties."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return ("", now.strftime("%a %b %d %H:%M:%S UTC %Y"))
