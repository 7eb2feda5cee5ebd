"""Where metadata logs are, and which of the files there belong to them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analytics.errors import ReplayInputError, reason_of
from analytics.read.batch_headers import MAX_OFFSET
from analytics.store.log_files import child, local_path, open_files
from jbodlab.metadata.log.snapshots import parse_name
from jbodlab.storage.directory.names import LOG_SUFFIX, METADATA_DIR_NAME

_SEGMENT = re.compile(rf"[0-9]{{20}}{re.escape(LOG_SUFFIX)}")
_MAX_EPOCH = 2**31 - 1


def find_metadata_dirs(source: str) -> tuple[str, ...]:
    """Return the directories of metadata logs that a path or URI names.

    Args:
        source: Such a directory, the log directory that contains it, or a folder of the log
            directories of several nodes.

    Raises:
        ReplayInputError: there is none, or it cannot be read.
    """
    try:
        local = local_path(source)
        if local is not None and not local.exists():
            raise ReplayInputError(f"input {source} does not exist")
        if local is not None and not local.is_dir():
            raise ReplayInputError(f"input {source} holds no metadata log: it is a file")
        entries = open_files(source).entries()
        if _holds_log(entries):
            return (source,)
        folders = sorted(name for name, size in entries.items() if size is None)
        if METADATA_DIR_NAME in folders:
            folders = [METADATA_DIR_NAME]
        found = [metadata for name in folders if (metadata := _log_in(child(source, name)))]
    except (OSError, ValueError) as error:
        raise ReplayInputError(f"input {source} cannot be read: {reason_of(error)}") from error
    if not found:
        raise ReplayInputError(f"input {source} holds no metadata log")
    return tuple(found)


def _log_in(source: str) -> str | None:
    """Return the metadata log that a folder is or contains."""
    entries = open_files(source).entries()
    if _holds_log(entries):
        return source
    if METADATA_DIR_NAME in entries and entries[METADATA_DIR_NAME] is None:
        inner = child(source, METADATA_DIR_NAME)
        return inner if _holds_log(open_files(inner).entries()) else None
    return None


def _holds_log(entries: Mapping[str, int | None]) -> bool:
    return any(size is not None and is_log_or_snapshot(name) for name, size in entries.items())


def is_log_or_snapshot(name: str) -> bool:
    """Return whether a replay reads a file, by its name."""
    return is_segment(name) or is_snapshot(name)


def is_segment(name: str) -> bool:
    """Return whether a file is a segment of the log, by its name."""
    return bool(_SEGMENT.fullmatch(name)) and base_offset_of(name) < MAX_OFFSET


def is_snapshot(name: str) -> bool:
    """Return whether a file is a complete snapshot, by its name."""
    try:
        end_offset, epoch = parse_name(name)
    except ValueError:
        return False
    return end_offset < MAX_OFFSET and epoch <= _MAX_EPOCH


def base_offset_of(name: str) -> int:
    """Return the first offset of a segment, from its name."""
    return int(name.removesuffix(LOG_SUFFIX))
