"""`.clean-close`: the part of the last segment that is known to be on the disk.

    {"version":0,"baseOffset":0,"size":4711}

A clean close of the log writes the file, and the next start removes it. It is valid only for the
segment and size that it names, so that a file left from an earlier close has no effect.
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
    """Write the file, durably, as the last write of a log.

    Without the file the next start only has more to do, so a failed write does not fail the stop.
    """
    content = {"version": VERSION, "baseOffset": closed.base_offset, "size": closed.size}
    data = json.dumps(content, separators=(",", ":")).encode()
    try:
        fs.write_bytes(directory / FILE, data, sync=True)
    except OSError as error:
        logger.warning("cannot write %s: %s", directory / FILE, error)


def take(fs: FileSystem, directory: Path) -> ClosedAt | None:
    """Remove the file; returns its content, None if it is missing or malformed."""
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
