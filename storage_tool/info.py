"""`info`: the directories of a node, their ids from the format, and their problems."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import FormatError
from storage_tool import node_file

if TYPE_CHECKING:
    from jbodlab.cli.results import StorageInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The findings in the directories of a node.

    Attributes:
        named: Whether the property file names any directory.
        directories: The directories that exist.
        metadata: `meta.properties` of the first formatted one; None if none is formatted.
        problems: The problems, one line each.
    """

    named: bool
    directories: tuple[Path, ...]
    metadata: MetaProperties | None
    problems: tuple[str, ...]

    def text(self) -> str:
        """Return it as Kafka's tool prints it, without the last line feed."""
        if not self.named:
            return "No directories specified."
        blocks = [_block("Found log director", ("y", "ies"), list(map(str, self.directories)))]
        if self.metadata is not None:
            shown = ", ".join(f"{key}={value}" for key, value in _properties(self.metadata).items())
            blocks.append(f"Found metadata: {{{shown}}}\n\n")
        blocks.append(_block("Found problem", ("", "s"), list(self.problems)))
        return "".join(blocks).removesuffix("\n")

    def as_json(self) -> StorageInfo:
        """Return it as JSON has it."""
        return {
            "directories": list(map(str, self.directories)),
            "metadata": None if self.metadata is None else _properties(self.metadata),
            "problems": list(self.problems),
        }


def run(config: str) -> int:
    """Print the findings; returns 1 if there is any problem, else 0."""
    found = look(config)
    if text := found.text():
        print(text)
    return 1 if found.problems else 0


def look(config: str) -> Found:
    """Look into the directories that a node's property file names.

    Raises:
        FormatError: the file cannot be read.
        ConfigError: a value in it is wrong.
    """
    node = node_file.read(config)
    directories: list[Path] = []
    problems: list[str] = []
    normal: dict[Path, MetaProperties] = {}
    for directory in node.directories:
        problem = _look_at(directory, normal)
        if problem is not None:
            problems.append(problem)
        if _is_dir(directory):
            directories.append(directory)
    problems += _contradictions(
        list(normal.values()), kraft=bool(node.values.words("process.roles"))
    )
    return Found(
        named=bool(node.directories),
        directories=tuple(directories),
        metadata=next(iter(normal.values()), None),
        problems=tuple(problems),
    )


def _look_at(directory: Path, normal: dict[Path, MetaProperties]) -> str | None:
    """Read one directory into `normal`; returns its problem instead if it has one."""
    try:
        normal[directory] = meta_properties.read(PosixFileSystem(), directory)
    except FileNotFoundError:
        return (
            f"{directory} is not formatted."
            if _is_dir(directory)
            else f"{directory} does not exist"
        )
    except NotADirectoryError:
        return f"{directory} is not a directory"
    except (OSError, FormatError) as error:
        return f"Error loading {directory}/meta.properties: {error}"
    return None


def _is_dir(directory: Path) -> bool:
    try:
        return directory.is_dir()
    except OSError:
        return False


def _contradictions(found: list[MetaProperties], *, kraft: bool) -> list[str]:
    problems = []
    if len({meta.cluster_id for meta in found if meta.cluster_id is not None}) > 1:
        problems.append("Mismatched cluster IDs between storage directories.")
    if len({meta.node_id for meta in found if meta.node_id is not None}) > 1:
        problems.append("Mismatched node IDs between storage directories.")
    versions = {meta.version for meta in found}
    if kraft and 0 in versions:
        problems.append(
            "The kafka configuration file appears to be for a cluster in KRaft mode, but the "
            "directories are formatted for legacy mode."
        )
    if not kraft and 1 in versions:
        problems.append(
            "The kafka configuration file appears to be for a legacy cluster, but the directories "
            "are formatted for a cluster in KRaft mode."
        )
    return problems


def _properties(meta: MetaProperties) -> dict[str, str]:
    return dict(meta.to_properties())


def _block(heading: str, endings: tuple[str, str], lines: list[str]) -> str:
    if not lines:
        return ""
    listed = "".join(f"  {line}\n" for line in lines)
    return f"{heading}{endings[0] if len(lines) == 1 else endings[1]}:\n{listed}\n"
