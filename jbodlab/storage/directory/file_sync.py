"""Brings a file to the disk in short steps."""

from __future__ import annotations

import contextlib
from pathlib import Path

from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.vocabulary.limits import WRITE_BACK_BYTES


def sync_file(fs: FileSystem, path: Path, size: int) -> None:
    """Sync a file that may have gone since it was asked for; then nothing of it is missing."""
    with contextlib.suppress(FileNotFoundError):
        position = 0
        while position + WRITE_BACK_BYTES < size:
            written = fs.write_back(path, position, WRITE_BACK_BYTES)
            if not written:
                break
            position += written
        fs.fsync_file(path)
