"""The settings that the tool needs of a node's property file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jbodlab.cli.command_line import read_properties
from jbodlab.config import node_config
from jbodlab.config.key_table import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFile:
    """A property file, read without a check of the node's configuration as a whole.

    Attributes:
        values: The settings, each of the right kind and range.
        directories: `log.dirs` (or `log.dir`) and `metadata.log.dir`, each once, sorted by text.
    """

    values: Values
    directories: tuple[Path, ...]


def read(file: str) -> NodeFile:
    """Read a property file.

    Raises:
        FormatError: the file cannot be read.
        ConfigError: a value in it is wrong.
    """
    values, _ = node_config.read_values(read_properties(Path(file)))
    log_dirs = values.words("log.dirs" if values.is_set("log.dirs") else "log.dir")
    metadata = (values.optional_text("metadata.log.dir") or "").strip()
    names = {*log_dirs, metadata} - {""}
    return NodeFile(
        values=values,
        directories=tuple(Path(name) for name in sorted(names)),
    )
