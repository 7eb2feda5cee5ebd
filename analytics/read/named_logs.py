"""Inputs as a user names them: the copies of metadata logs there, in folders and in archives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from analytics.errors import ReplayInputError, reason_of
from analytics.read.layout import Layout, read_layout
from analytics.read.log_copies import (
    MEMBER,
    LogCopy,
    check_label,
    cluster_id_of,
    find_copies,
    is_wanted,
    stamp_of,
)
from analytics.read.merged_layout import SEVERAL, merged_layout
from analytics.store.archives import is_archive, unpack
from analytics.store.log_files import local_path
from analytics.store.patterns import expand, is_pattern
from analytics.store.store import Store

LISTED_AT_ONCE = 16

_NAMED = re.compile(r"([^=:/\\]+)=(.+)", re.DOTALL)

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A directory or an archive that an input names."""

    label: str | None
    """Name that was given to the cluster."""
    source: str
    is_exact: bool
    """Whether it was named, not found by a pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An archive, and whether it is still what it was."""

    place: Place
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Copies and archives that were found by listing folders."""

    found: tuple[tuple[str | None, LogCopy], ...]
    """Copies in directories, with the label that was given."""
    archives: tuple[Archive, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of everything, archives as they are."""
        copies = sum(copy.size_bytes for _, copy in self.found)
        return copies + sum(size for one in self.archives for _, size, _ in one.stamp)


def look(inputs: Sequence[str]) -> Inputs:
    """Look for what inputs name.

    Args:
        inputs: Paths, URIs and patterns, each with `NAME=` in front of it or without.

    Raises:
        ReplayInputError: one names nothing, or cannot be read.
    """
    places = [place for text in inputs for place in _places(text)]
    with ThreadPoolExecutor(LISTED_AT_ONCE) as pool:
        found = list(pool.map(_look, places))
    copies = tuple((place.label, one) for place, own, _ in found for one in own)
    archives = tuple(archive for _, _, archive in found if archive is not None)
    if not copies and not archives:
        raise ReplayInputError(f"input {', '.join(inputs)} names no metadata log")
    return Inputs(found=copies, archives=archives)


def unpack_archive(archive: Archive, scratch: str, folder: str) -> list[tuple[str | None, LogCopy]]:
    """Unpack an archive; returns the copies in it, with the label that was given.

    Raises:
        ReplayInputError: it cannot be read, or holds no metadata log.
    """
    source = archive.place.source
    store = Store(scratch)
    try:
        for anywhere in (False, True):
            found = unpack(source, store, folder, partial(is_wanted, anywhere=anywhere))
            if found:
                break
        else:
            raise ReplayInputError(f"input {source} holds no metadata log")
        copies = []
        for one in found:
            stamp = stamp_of(f"{scratch}/{one.folder}")
            copies.append(
                LogCopy(
                    source=f"{source}{MEMBER}{one.member}",
                    folder=f"{scratch}/{one.folder}",
                    cluster_id=cluster_id_of(one.properties),
                    size_bytes=sum(size for _, size, _ in stamp),
                    stamp=archive.stamp,
                    archive=source,
                )
            )
    except (OSError, ValueError) as error:
        raise ReplayInputError(f"input {source} cannot be read: {reason_of(error)}") from error
    return [(archive.place.label, copy) for copy in copies]


def layout_of(copies: Sequence[LogCopy], split_bytes: int | None = None) -> Layout:
    """Read the layout of the log that copies in folders are of.

    Args:
        copies: At least one.
        split_bytes: Bytes of one task; None leaves it to the size of the log.

    Raises:
        ReplayInputError: one cannot be listed.
    """
    folders = [copy.folder for copy in copies]
    is_one = len(folders) == 1
    layout = read_layout(folders[0], split_bytes) if is_one else merged_layout(folders)
    if all(copy.archive is None for copy in copies):
        return layout
    return replace(layout, source=SEVERAL.join(copy.source for copy in copies))


def _places(text: str) -> Iterator[Place]:
    named = _NAMED.fullmatch(text)
    local = local_path(text)
    if named is None or (local is not None and local.exists()):
        label, source = None, text
    else:
        label, source = check_label(named[1]), named[2]
    try:
        found = expand(source)
    except (OSError, ValueError) as error:
        raise ReplayInputError(f"input {source} cannot be read: {reason_of(error)}") from error
    if not found:
        raise ReplayInputError(f"input {source} matches nothing")
    is_exact = not is_pattern(source)
    for one in found:
        yield Place(label=label, source=one, is_exact=is_exact)


def _look(place: Place) -> tuple[Place, list[LogCopy], Archive | None]:
    if is_archive(place.source):
        above, _, name = place.source.rpartition("/")
        try:
            file = Store(above or ".").file(name)
        except (OSError, ValueError) as error:
            reason = reason_of(error)
            raise ReplayInputError(f"input {place.source} cannot be read: {reason}") from error
        if file is None:
            raise ReplayInputError(f"input {place.source} does not exist")
        return place, [], Archive(place=place, stamp=((file.name, file.size, file.changed_ns),))
    try:
        return place, find_copies(place.source), None
    except ReplayInputError as error:
        if place.is_exact or error.__cause__ is not None:  # it cannot be read
            raise
        # A pattern may match what is none: a folder of something else beside the logs.
        return place, [], None
