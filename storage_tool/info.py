"""`info`: which directories a node has, what they are formatted for, and what is wrong."""

from __future__ import annotations

from pathlib import Path

from jbodlab.errors import FormatError
from jbodlab.log import meta_properties
from jbodlab.log.meta_properties import MetaProperties
from jbodlab.log.posix_filesystem import PosixFileSystem
from storage_tool import node_file


def run(config: str) -> int:
    """Print what is found; returns 1 if there is any problem, else 0."""
    node = node_file.read(config)
    if not node.directories:
        print("No directories specified.")
        return 0
    found: list[str] = []
    problems: list[str] = []
    normal: dict[Path, MetaProperties] = {}
    for directory in node.directories:
        problem = _look_at(directory, normal)
        if problem is not None:
            problems.append(problem)
        if _is_dir(directory):
            found.append(str(directory))
    problems += _contradictions(
        list(normal.values()), kraft=bool(node.values.words("process.roles"))
    )
    _print_block("Found log director", ("y", "ies"), found)
    if normal:
        first = next(iter(normal.values()))
        shown = ", ".join(f"{key}={value}" for key, value in first.to_properties().items())
        print(f"Found metadata: {{{shown}}}\n")
    _print_block("Found problem", ("", "s"), problems)
    return 1 if problems else 0


def _look_at(directory: Path, normal: dict[Path, MetaProperties]) -> str | None:
    """Read one directory into `normal`; returns what is wrong with it otherwise."""
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


def _print_block(heading: str, endings: tuple[str, str], lines: list[str]) -> None:
    if lines:
        print(f"{heading}{endings[0] if len(lines) == 1 else endings[1]}:")
        print("".join(f"  {line}\n" for line in lines))
