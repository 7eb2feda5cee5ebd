"""Archives of a node's log directory, as people collect them: `.tar.gz`, `.tgz`, `.tar`, `.zip`.

An archive can be read from its begin only, and by one reader; so it is unpacked once into the
store, where tasks read any part of it. Of what it holds only the metadata log is unpacked, and what
`meta.properties` beside it says.
"""

from __future__ import annotations

import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from analytics.store.store import Store

SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")

PROPERTIES = "meta.properties"
PROPERTIES_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedFolder:
    """A folder of an archive.

    Attributes:
        member: Its name in the archive; empty for the top.
        folder: Its name in the store.
        properties: Content of `meta.properties` in it, or else in the folder above it.
    """

    member: str
    folder: str
    properties: str | None


def is_archive(source: str) -> bool:
    """Return whether a path or URI is that of an archive, by its name."""
    return source.lower().endswith(SUFFIXES)


def unpack(
    source: str, store: Store, folder: str, wanted: Callable[[PurePosixPath], bool]
) -> list[UnpackedFolder]:
    """Unpack files of an archive.

    Returns:
        The folders that had such files.

    Raises:
        OSError: the archive cannot be read, or is none.
    """
    folders: dict[PurePosixPath, str] = {}
    properties: dict[PurePosixPath, str] = {}
    above, _, name = source.rpartition("/")
    archive = Store(above or ".")
    try:
        with archive.files.open_input_file(archive.path(name)) as file:
            for member, content in _members(source, file):
                where = member.parent
                if member.name == PROPERTIES:
                    properties[where] = content.read(PROPERTIES_BYTES_MAX).decode(
                        "utf-8", "replace"
                    )
                elif wanted(member):
                    target = folders.setdefault(where, f"{folder}/{len(folders)}")
                    _write(store, f"{target}/{member.name}", content)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise OSError(str(error) or type(error).__name__) from error
    return [
        UnpackedFolder(
            member=str(where) if where.parts else "",
            folder=target,
            properties=properties.get(where, properties.get(where.parent)),
        )
        for where, target in folders.items()
    ]


def _members(source: str, file: IO[bytes]) -> Iterator[tuple[PurePosixPath, IO[bytes]]]:
    """Yield the files of an archive, each to be read before the next one."""
    if source.lower().endswith(".zip"):
        if not _is_zip(file):
            raise zipfile.BadZipFile("not a zip file")
        with zipfile.ZipFile(file) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    with packed.open(info) as content:
                        yield _clean(info.filename), content
        return
    with tarfile.open(fileobj=file, mode="r|*") as packed_tar:
        for member in packed_tar:
            content_or_none = packed_tar.extractfile(member) if member.isfile() else None
            if content_or_none is not None:
                yield _clean(member.name), content_or_none


def _is_zip(file: IO[bytes]) -> bool:
    try:
        return zipfile.is_zipfile(file)
    except ValueError:  # so short that pyarrow cannot go to where a zip file would tell
        return False


def _clean(name: str) -> PurePosixPath:
    """Return a name in an archive without what leads out of it."""
    parts = (part for part in PurePosixPath(name).parts if part not in ("/", "..", "."))
    return PurePosixPath(*parts)


def _write(store: Store, name: str, content: IO[bytes]) -> None:
    store.make_folder(str(PurePosixPath(name).parent))
    with store.files.open_output_stream(store.path(name)) as stream:
        shutil.copyfileobj(content, stream, 1 << 20)
