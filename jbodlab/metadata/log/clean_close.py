"""`.clean-close`: says up to where the last segment is known to be on the disk.

    {"version":0,"baseOffset":0,"size":4711}

A log that was closed in order leaves it, and the next start takes it away. It counts only for the
very segment and size that it names, so that one that is left from before counts for nothing.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

import msgspec

from jbodlab.storage.directory.filesystem import FileSystem

logger = logging.getLogger(__name__)

FILE = ".clean-close"
VERSION = 0


class ClosedAt(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a log that was closed in order.

    Attributes:
        base_offset: First offset of its last segment.
        size: Bytes of that segment, all of which are on the disk.
    """

    base_offset: int
    size: int


def write(fs: FileSystem, directory: Path, closed: ClosedAt) -> None:
    """Write the file, durably, as the last thing of a log.

    Without it the next start only has more to do, so a disk that refuses it fails no stop.
    """
    content = {"version": VERSION, "baseOffset": closed.base_offset, "size": closed.size}
    data = json.dumps(content, separators=(",", ":")).encode()
    try:
        fs.write_bytes(directory / FILE, data, sync=True)
    except OSError as error:
        logger.warning("cannot write %s: %s", directory / FILE, error)


def take(fs: FileSystem, directory: Path) -> ClosedAt | None:
    """Remove the file; returns what it said, None where there is none, or none that can be read."""
    path = directory / FILE
    if not fs.exists(path):
        return None
    data = fs.read_bytes(path)
    fs.unlink(path)
    try:
        content = json.loads(data)
        if content["version"] != VERSION:
            return None
        return ClosedAt(base_offset=content["baseOffset"], size=content["size"])
    except (ValueError, KeyError, TypeError) as error:
        logger.warning("cannot read %s: %r", path, error)
        return None
