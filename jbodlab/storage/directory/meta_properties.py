"""`meta.properties` of one directory, and the checks across all directories of a node.

    #
    #Thu Oct 10 10:11:12 UTC 2024
    cluster.id=41QSStLtR3qOekbX4ZlbHA
    directory.id=b4d9ExdORgaQq38CyHwWTA
    node.id=8
    version=1

Version 0 names the node `broker.id` and has no required key. A directory is *empty* if it or its
file is missing, *failed* if the file cannot be read for another reason, else *normal*.

Source: `org.apache.kafka.metadata.properties.MetaProperties`, `MetaPropertiesEnsemble`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from jbodlab.storage.directory import disk_errors
from jbodlab.storage.directory.filesystem import FileSystem
from jbodlab.storage.directory.names import META_PROPERTIES_FILE, METADATA_DIR_NAME
from jbodlab.vocabulary import directory_id, kafka_uuid, properties
from jbodlab.vocabulary.errors import FormatError
from jbodlab.vocabulary.ids import DirectoryId

VERSION = 1
"""Version of new files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Content of one `meta.properties`; `None` for a key that the file lacks."""

    version: int = VERSION
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: DirectoryId | None = None
    is_open_ended: bool = field(default=False, compare=False)
    """Whether the last line has no end, as in a file that was cut short."""

    def to_properties(self) -> dict[str, str]:
        """Return the file's keys and values, sorted by key."""
        node_key = "node.id" if self.version >= 1 else "broker.id"
        found = {"version": str(self.version)}
        if self.cluster_id is not None:
            found["cluster.id"] = self.cluster_id
        if self.node_id is not None:
            found[node_key] = str(self.node_id)
        if self.directory_id is not None:
            found["directory.id"] = kafka_uuid.to_text(self.directory_id)
        return dict(sorted(found.items()))


class Ensemble(msgspec.Struct, frozen=True, kw_only=True):
    """The findings in all directories of one node, each list ordered by path."""

    metadata_log_dir: Path
    empty: tuple[Path, ...] = ()
    failed: Mapping[Path, str]
    """Directories whose file cannot be read, each with the reason."""
    normal: Mapping[Path, MetaProperties]
    holding_metadata_log: frozenset[Path] = frozenset()
    """Normal directories with a metadata log inside."""


def parse(text: str) -> MetaProperties:
    """Read the content of a `meta.properties` file.

    Raises:
        FormatError: the text is malformed, or a key that its version requires is missing.
    """
    try:
        found = properties.parse(text)
    except ValueError as error:
        raise FormatError(str(error)) from error
    version = _version(found.get("version", "0"))
    node_id = _node_id(found, "node.id" if version >= 1 else "broker.id")
    cluster_id = found.get("cluster.id")
    if version >= 1 and cluster_id is None:
        raise FormatError("cluster.id was not found.")
    if version >= 1 and node_id is None:
        raise FormatError("node.id was not found.")
    return MetaProperties(
        version=version,
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=_directory_id(found.get("directory.id")),
        is_open_ended=not text.endswith(("\n", "\r")),
    )


def read(fs: FileSystem, directory: Path) -> MetaProperties:
    """Read the file of one directory.

    Raises:
        FileNotFoundError: the directory or its file is missing.
        OSError: the file cannot be read.
        FormatError: the file can be read, but is malformed.
    """
    data = fs.read_bytes(directory / META_PROPERTIES_FILE)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{META_PROPERTIES_FILE} is not UTF-8 text: {error}") from error
    return parse(text)


def write(
    fs: FileSystem, directory: Path, meta: MetaProperties, *, comments: Iterable[str] = ("",)
) -> None:
    """Replace the file of one directory, durably.

    Args:
        fs: The disk.
        directory: The log directory.
        meta: The new content.
        comments: Comment lines without their `#`; by custom an empty one and the date.
    """
    text = properties.render(meta.to_properties(), comments)
    fs.write_atomically(directory / META_PROPERTIES_FILE, text.encode("utf-8"))


def look_into(fs: FileSystem, directory: Path) -> tuple[MetaProperties, bool]:
    """Return the file of one directory, and whether a metadata log is in the directory.

    Raises:
        FileNotFoundError, OSError, FormatError: as `read`.
    """
    return read(fs, directory), fs.exists(directory / METADATA_DIR_NAME)


def read_ensemble(
    fs: FileSystem,
    log_dirs: Iterable[Path],
    metadata_log_dir: Path | None = None,
    *,
    look: Callable[[Path], tuple[MetaProperties, bool]] | None = None,
) -> Ensemble:
    """Read the files of all directories of a node; a single bad file raises no error.

    Args:
        fs: The disk.
        log_dirs: `log.dirs`, in configured order.
        metadata_log_dir: `metadata.log.dir`; the first of `log_dirs` if None.
        look: Looks into one directory in place of `look_into`, for callers that cannot wait for a
            disk that does not answer.
    """
    configured = list(log_dirs)
    if metadata_log_dir is None:
        metadata_log_dir = configured[0]
    empty: list[Path] = []
    failed: dict[Path, str] = {}
    normal: dict[Path, MetaProperties] = {}
    holding: set[Path] = set()
    for directory in sorted({*configured, metadata_log_dir}, key=str):
        try:
            meta, holds_metadata_log = look(directory) if look else look_into(fs, directory)
            if holds_metadata_log:
                holding.add(directory)
        except FileNotFoundError:
            empty.append(directory)
        except (OSError, FormatError) as error:
            if disk_errors.is_shortage(error):
                raise
            failed[directory] = str(error)
        else:
            normal[directory] = meta
    return Ensemble(
        metadata_log_dir=metadata_log_dir,
        empty=tuple(empty),
        failed=failed,
        normal=normal,
        holding_metadata_log=frozenset(holding),
    )


def without_lost_disks(ensemble: Ensemble) -> Ensemble:
    """Count a directory as failed if it looks like a lost disk or has a torn `meta.properties`.

    At boot an unmounted disk is an empty mount point, or a missing one. A file that was being
    replaced at a power loss is empty, truncated, or full of zeros. Only a file without its last
    line, `version=1`, has neither a broker nor a node id. In files written by Kafka the cluster id
    is the last line; if it is truncated, it is a prefix of the other directories' cluster id. The
    metadata directory stays among the empty ones, as a server cannot run without it.
    """
    metadata_dir = ensemble.metadata_log_dir
    failed, normal = dict(ensemble.failed), dict(ensemble.normal)
    for directory in ensemble.empty:
        if directory != metadata_dir:
            failed[directory] = (
                f"No `{META_PROPERTIES_FILE}` found in {directory}: its disk is not mounted, or it "
                "was never formatted"
            )
    for directory, meta in ensemble.normal.items():
        fault = f"{missing} not found" if (missing := _missing_id(meta)) else ""
        if _is_cut_short(meta, ensemble.normal.values()):
            fault = "the file is truncated"
        if fault:
            del normal[directory]
            failed[directory] = f"{directory / META_PROPERTIES_FILE} is damaged: {fault}"
    return replace(
        ensemble,
        empty=tuple(each for each in ensemble.empty if each == metadata_dir),
        failed=failed,
        normal=normal,
    )


def verify_ensemble(
    ensemble: Ensemble,
    *,
    node_id: int | None,
    cluster_id: str | None = None,
    require_formatted: bool = True,
) -> None:
    """Check the `meta.properties` of all directories of a node, in Kafka's order.

    Args:
        ensemble: The directories, as they were read.
        node_id: The configured `node.id`; None to take the first directory's.
        cluster_id: The cluster id all must have; None to take the first directory's.
        require_formatted: Whether an empty directory, or the lack of a normal one, is an error; the
            tool that formats directories passes False.

    Raises:
        FormatError: the first error found; every one of them is fatal to a server.
    """
    if require_formatted and not ensemble.normal:
        raise FormatError("No readable meta.properties files found.")
    _verify_ids(ensemble.normal, node_id, cluster_id)
    metadata_dir = ensemble.metadata_log_dir
    if metadata_dir in ensemble.failed:
        raise FormatError(
            f"Encountered I/O error in metadata log directory {metadata_dir}. Cannot continue."
        )
    for directory in ensemble.normal:
        if directory in ensemble.holding_metadata_log and directory != metadata_dir:
            raise FormatError(
                "Found unexpected metadata location in data directory "
                f"`{directory / METADATA_DIR_NAME}` "
                f"(the configured metadata directory is {metadata_dir})."
            )
    if require_formatted:
        _verify_complete(ensemble)


def _verify_ids(
    normal: Mapping[Path, MetaProperties], node_id: int | None, cluster_id: str | None
) -> None:
    """Check that the ids of all normal directories fit together."""
    seen: dict[DirectoryId, Path] = {}
    for directory, meta in normal.items():
        path = directory / META_PROPERTIES_FILE
        if cluster_id is None:
            cluster_id = meta.cluster_id
        elif meta.cluster_id is not None and meta.cluster_id != cluster_id:
            raise FormatError(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {meta.cluster_id}"
            )
        if node_id is None:
            node_id = meta.node_id
        elif meta.node_id is not None and meta.node_id != node_id:
            raise FormatError(
                f"Stored node id {meta.node_id} doesn't match previous node id {node_id} in "
                f"{path}. If you moved your data, make sure your configured node id matches. If "
                "you intend to create a new node, you should remove all data in your data "
                "directories."
            )
        if meta.directory_id is not None:
            _verify_directory_id(meta.directory_id, directory, seen)


def _verify_directory_id(
    found: DirectoryId, directory: Path, seen: dict[DirectoryId, Path]
) -> None:
    text = kafka_uuid.to_text(found)
    if directory_id.is_reserved(found):
        # Spelled as operators know it from Kafka.
        raise FormatError(f"Invalid resrved directory ID {text} found in {directory}")
    if found in seen:
        raise FormatError(
            f"Duplicate directory ID {text} found. It was the ID of {seen[found]}, "
            f"but also of {directory}"
        )
    seen[found] = directory


def _verify_complete(ensemble: Ensemble) -> None:
    """Check that every directory that can be read is formatted, and knows node and cluster."""
    for directory in sorted((*ensemble.empty, *ensemble.normal), key=str):
        if directory in ensemble.empty:
            raise FormatError(
                f"No `meta.properties` found in {directory} "
                "(have you run `kafka-storage.sh` to format the directory?)"
            )
        missing = _missing_id(ensemble.normal[directory])
        if missing:
            raise FormatError(f"Error: {missing} not found in {directory}")


def _missing_id(meta: MetaProperties) -> str:
    """Return the name of the id that a directory's file lacks, as operators read it; else empty."""
    if meta.node_id is None:
        return "node ID"
    return "cluster ID" if meta.cluster_id is None else ""


def _is_cut_short(meta: MetaProperties, all_found: Iterable[MetaProperties]) -> bool:
    """Return whether the last line lacks an end that another directory's has."""
    return meta.is_open_ended and any(
        _is_beginning(meta.cluster_id, each.cluster_id) or _is_beginning(meta.node_id, each.node_id)
        for each in all_found
    )


def _is_beginning(short: object, whole: object) -> bool:
    return short != whole and str(whole).startswith(str(short))


def _version(text: str) -> int:
    try:
        version = int(text.strip())
    except ValueError as error:
        raise FormatError(f"Invalid meta.properties version string '{text}'") from error
    if version not in (0, 1):
        raise FormatError(f"Unknown meta.properties version number {version}")
    return version


def _node_id(found: Mapping[str, str], key: str) -> int | None:
    if key not in found:
        return None
    try:
        node_id = int(found[key].strip())
    except ValueError as error:
        raise FormatError(f"Unable to read {key} as a base-10 number.") from error
    if node_id < 0:
        raise FormatError("Node id cannot be negative.")
    return node_id


def _directory_id(text: str | None) -> DirectoryId | None:
    if text is None:
        return None
    try:
        return DirectoryId(kafka_uuid.parse(text))
    except ValueError as error:
        raise FormatError(f"Unable to read directory.id as a Uuid: {text}") from error
