"""Copies of metadata logs: where they are, whose they are, and what they are called.

A copy is a directory `__cluster_metadata-0` of one node, as it lies somewhere or came out of an
archive. Several copies of one cluster are one log (`read.merged_layout`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from analytics.errors import ReplayInputError
from analytics.read.metadata_dirs import find_metadata_dirs, is_log_or_snapshot
from analytics.store.archives import PROPERTIES, PROPERTIES_BYTES_MAX, SUFFIXES
from analytics.store.log_files import local_path, open_files
from analytics.store.store import Store
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary import properties

MEMBER = "!"
"""Between the name of an archive and the name of a folder in it."""

_LABEL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")
_PARTITION = re.compile(r".+-[0-9]+(\.[0-9a-f]+-(delete|future|stray))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCopy:
    """One copy of a metadata log.

    Attributes:
        source: Where it is, as a user knows it.
        folder: Path or URI that tasks read it from; empty while it is in an archive.
        cluster_id: Id in `meta.properties` beside it; None if it is not there.
        size_bytes: Of segments and snapshots.
        stamp: Names, sizes and times of its files, or of its archive: changes when they do.
        archive: The archive that it is in.
    """

    source: str
    folder: str
    cluster_id: str | None
    size_bytes: int
    stamp: tuple[tuple[str, int, int], ...]
    archive: str | None = None


def find_copies(source: str) -> list[LogCopy]:
    """Return the copies in a directory: see `metadata_dirs.find_metadata_dirs`.

    Raises:
        ReplayInputError: there is none, or it cannot be read.
    """
    return [_copy(folder) for folder in find_metadata_dirs(source)]


def stamp_of(source: str) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when the files of a metadata log do, or when an archive does.

    Raises:
        OSError: it cannot be read.
    """
    store = Store(source)
    return tuple(
        (file.name, file.size, file.changed_ns)
        for file in store.files_in()
        if is_log_or_snapshot(file.name)
    )


def cluster_id_of(text: str | None) -> str | None:
    """Return the id in the text of a `meta.properties`, None if there is none."""
    if text is None:
        return None
    try:
        return properties.parse(text).get("cluster.id") or None
    except ValueError:
        return None


def cluster_id_beside(folder: str) -> str | None:
    """Return the cluster id that the `meta.properties` beside a log says, None without one."""
    above, _, name = folder.rstrip("/").rpartition("/")
    places = [folder, above or "."] if name == METADATA_DIR_NAME else [folder]
    for place in places:
        with suppress(OSError, ValueError):
            raw = open_files(place).read(PROPERTIES, 0, PROPERTIES_BYTES_MAX)
            return cluster_id_of(raw.decode("utf-8", "replace"))
    return None


def is_wanted(member: PurePosixPath, *, anywhere: bool) -> bool:
    """Return whether a file of an archive belongs to a metadata log.

    Args:
        member: Its name in the archive.
        anywhere: Whether its folder may have another name than Kafka gives it.
    """
    folder = member.parent.name
    if not is_log_or_snapshot(member.name):
        return False
    return folder == METADATA_DIR_NAME or (anywhere and not _PARTITION.fullmatch(folder))


def check_label(label: str) -> str:
    """Return a label that a user gave to a cluster.

    Raises:
        ReplayInputError: it would not do as the name of a folder that every reader takes for text.
    """
    if not _LABEL.fullmatch(label) or _looks_like_a_number(label):
        raise ReplayInputError(
            f"input: {label!r} does not do as the name of a cluster: letters, digits, '.', '_' and "
            "'-', at most 100, and not a number"
        )
    return label


def labelled(found: Sequence[tuple[str | None, LogCopy]]) -> dict[str, list[LogCopy]]:
    """Return the copies of each cluster by its label.

    Raises:
        ReplayInputError: two logs would get one label.
    """
    nameless = dict.fromkeys(
        copy.source for label, copy in found if label is None and copy.cluster_id is None
    )
    of_path = dict(zip(nameless, _telling_parts(list(nameless)), strict=True))
    clusters: dict[str, list[LogCopy]] = {}
    by_path: set[str] = set()
    for given, copy in found:
        label = given or copy.cluster_id
        if label is None or not _LABEL.fullmatch(label) or _looks_like_a_number(label):
            label = _text(label or of_path[copy.source])
        own = clusters.setdefault(label, [])
        if copy.source not in (known.source for known in own):
            own.append(copy)
        if given is None and copy.source in of_path:
            by_path.add(label)
    for label, own in sorted(clusters.items()):
        ids = sorted({copy.cluster_id for copy in own if copy.cluster_id is not None})
        if len(own) > 1 and (label in by_path or len(ids) > 1):
            which = f" (cluster.id {' and '.join(ids)})" if len(ids) > 1 else ""
            raise ReplayInputError(
                f"inputs {own[0].source} and {own[1].source}{which} would both be cluster "
                f"{label}: give one another name, as NAME=URI"
            )
    return dict(sorted(clusters.items()))


def _telling_parts(sources: Sequence[str]) -> list[str]:
    """Return for each path the part that tells it from the others."""
    paths = [_parts(source) for source in sources]
    if len(paths) < 2:
        return [path[-1] for path in paths]
    shortest = min(map(len, paths))
    begin = next((i for i in range(shortest) if len({path[i] for path in paths}) > 1), shortest)
    end = next(
        (i for i in range(1, shortest - begin + 1) if len({path[-i] for path in paths}) > 1),
        shortest - begin + 1,
    )
    return [".".join(path[begin : len(path) - end + 1]) or path[-1] for path in paths]


def _parts(source: str) -> list[str]:
    local = local_path(source)
    text = str(local.absolute()) if local is not None else source.partition("://")[2]
    parts = []
    for part in re.split(rf"/|{MEMBER}", text):
        suffix = next((one for one in SUFFIXES if part.lower().endswith(one)), "")
        parts.append(part[: len(part) - len(suffix)])
    parts = [part for part in parts if part]
    return [part for part in parts if part != METADATA_DIR_NAME] or parts


def _text(label: str) -> str:
    clean = _FOREIGN.sub("-", label).strip("-.")[:90] or "log"
    return f"cluster-{clean}" if _looks_like_a_number(clean) else clean


def _looks_like_a_number(label: str) -> bool:
    """Return whether readers would take the name of a folder for a number or a date."""
    try:
        float(label.rstrip("dDfFlL"))
    except ValueError:
        return not any(character.isalpha() for character in label)
    return True


def _copy(folder: str) -> LogCopy:
    try:
        stamp = stamp_of(folder)
    except (OSError, ValueError) as error:
        raise ReplayInputError(f"input {folder} cannot be read: {error}") from error
    return LogCopy(
        source=folder,
        folder=folder,
        cluster_id=cluster_id_beside(folder),
        size_bytes=sum(size for _, size, _ in stamp),
        stamp=stamp,
    )
