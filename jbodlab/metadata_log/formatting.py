"""Gives directories their ids and the first records of the metadata log.

A directory counts as formatted when it has `meta.properties`; that is written last and atomically,
so an interruption leaves directories that are formatted or not, never half.

Source: `org.apache.kafka.metadata.storage.Formatter`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from jbodlab import directory_id
from jbodlab.errors import FormatError
from jbodlab.ids import DirectoryId
from jbodlab.log import meta_properties
from jbodlab.log.filesystem import PosixFileSystem
from jbodlab.log.meta_properties import MetaProperties
from jbodlab.metadata_log.snapshots import write_bootstrap
from jbodlab.records.config_records import FeatureLevelRecord
from jbodlab.records.metadata_version import FEATURE_NAME, versioned


def format_directories(
    directories: Sequence[Path],
    *,
    cluster_id: str,
    node_id: int,
    level: int,
    used: set[DirectoryId] | None = None,
    tell: Callable[[Path], None] = lambda _: None,
) -> None:
    """Format directories of one node, creating those that are missing.

    Args:
        directories: Each without `meta.properties`.
        cluster_id: Id of the cluster, as text.
        node_id: Id of the node.
        level: `metadata.version` that the cluster starts with.
        used: Ids that the node's other directories have.
        tell: Told of each directory before it is formatted.

    Raises:
        FormatError: a directory could not be written.
    """
    taken = set(used or ())
    for directory in directories:
        found = directory_id.random_directory_id(os.urandom)
        while found in taken:
            found = directory_id.random_directory_id(os.urandom)
        taken.add(found)
        tell(directory)
        meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=found)
        try:
            _format_one(directory, meta, level)
        except OSError as error:
            raise FormatError(
                f"Error while writing meta.properties file {directory}: {error}"
            ) from error


def _format_one(directory: Path, meta: MetaProperties, level: int) -> None:
    fs = PosixFileSystem()
    _make_directory(fs, directory)
    records = [versioned(FeatureLevelRecord(name=FEATURE_NAME, feature_level=level), level)]
    write_bootstrap(directory / "bootstrap.checkpoint", records)
    meta_properties.write(fs, directory, meta, comments=_comments())


def _make_directory(fs: PosixFileSystem, directory: Path) -> None:
    """Create a directory with its parents, durably."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    fs.mkdir(directory, parents=True, exist_ok=True)
    for path in missing:
        fs.fsync_dir(path.parent)


def _comments() -> Sequence[str]:
    """Return the comment lines that Java writes above properties."""
    return ("", datetime.now(UTC).strftime("%a %b %d %H:%M:%S UTC %Y"))
