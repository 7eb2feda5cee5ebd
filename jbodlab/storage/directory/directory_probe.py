"""Checks that a directory still exists, is still the same one, and can be written.

Open files remain usable after their directory was locked, unmounted or removed, so a successful
append says nothing about the directory. Only an access through the directory's path does.
"""

from __future__ import annotations

import errno
from pathlib import Path

from jbodlab.storage.directory.filesystem import FileSystem

PROBE_FILE = ".jbodlab-probe"
"""Fixed name, so that a process's first probe removes the file that a killed process left."""


def check_identity(fs: FileSystem, path: Path, identity: tuple[int, int] | None) -> None:
    """Check that a path still leads to the directory of the start.

    Raises:
        OSError: it does not, or leads nowhere.
    """
    if identity is not None and fs.identity(path) != identity:
        raise FileNotFoundError(
            errno.ENOENT, "another directory was mounted or created at this path", str(path)
        )


def probe(fs: FileSystem, path: Path, identity: tuple[int, int] | None) -> None:
    """Create, write, sync and remove a file in a directory.

    Raises:
        OSError: the directory is missing, is not the one it was at start, or cannot be written.
    """
    check_identity(fs, path, identity)
    file = path / PROBE_FILE
    fs.write_bytes(file, b"jbodlab\n", sync=True)
    # The file may have been removed by hand meanwhile.
    fs.unlink(file, missing_ok=True)
