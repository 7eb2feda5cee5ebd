"""What the tool needs of a node's property file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jbodlab.command_line import read_properties
from jbodlab.config import node_config


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFile:
    """A property file as far as it can be read without judging the node's configuration.

    Attributes:
        text: Keys and values as they stand there.
        directories: `log.dirs` (or `log.dir`) and `metadata.log.dir`, each once, sorted by text.
    """

    text: Mapping[str, str]
    roles: tuple[str, ...]
    directories: tuple[Path, ...]

    @property
    def has_voters(self) -> bool:
        """Whether the controller is named in the file."""
        return bool(self.text.get("controller.quorum.voters", "").strip())


def read(file: str) -> NodeFile:
    """Read a property file.

    Raises:
        FormatError: the file cannot be read.
        ConfigError: a value in it is wrong.
    """
    text = read_properties(Path(file))
    values, _ = node_config.read_values(text)
    log_dirs = values.words("log.dirs" if values.is_set("log.dirs") else "log.dir")
    metadata = (values.optional_text("metadata.log.dir") or "").strip()
    names = {*log_dirs, metadata} - {""}
    return NodeFile(
        text=text,
        roles=values.words("process.roles"),
        directories=tuple(Path(name) for name in sorted(names)),
    )
