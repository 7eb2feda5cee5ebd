"""Where log directories lie, as their own files say: a log knows them by their ids only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analytics.errors import ReplayInputError
from jbodlab.cli.command_line import read_properties
from jbodlab.vocabulary.errors import FormatError

META_PROPERTIES = "meta.properties"
DIRECTORY_ID = "directory.id"


def directory_paths(config: Path | None, meta_files: Sequence[Path]) -> dict[str, str]:
    """Return paths of directories by the texts of their ids.

    Args:
        config: A broker's server.properties; of its directories, those count that are here.
        meta_files: The meta.properties of directories, each in its directory or a copy of that.

    Raises:
        ReplayInputError: a file cannot be read, or one that was named tells no id.
    """
    found = {}
    for file in meta_files:
        directory = properties(file).get(DIRECTORY_ID)
        if directory is None:
            raise ReplayInputError(f"{file} has no {DIRECTORY_ID}")
        found[directory] = str(file.parent)
    if config is not None:
        known = properties(config)
        for name in known.get("log.dirs", known.get("log.dir", "")).split(","):
            file = Path(name.strip()) / META_PROPERTIES
            if name.strip() and file.is_file():
                directory = properties(file).get(DIRECTORY_ID)
                if directory is not None:
                    found[directory] = name.strip()
    return found


def properties(file: Path) -> dict[str, str]:
    """Return the properties of a file; raises ReplayInputError if it cannot be read."""
    try:
        return read_properties(file)
    except FormatError as error:
        raise ReplayInputError(str(error)) from error
