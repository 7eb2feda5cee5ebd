"""Files of a log directory on this machine or on any Hadoop file system.

A directory is named by a path, or by a URI as Hadoop has them (`file:`, `hdfs://`, `s3a://`, ...).
Every process opens it by its name, so that the name is all that tasks need. Anything but local
files is read by `pyarrow.fs`: for `hdfs://` that needs Hadoop's native library and a CLASSPATH with
its jars (`hadoop classpath --glob`), while `webhdfs://` needs neither (`store.webhdfs`); for
`s3a://` the environment's credentials, and AWS_ENDPOINT_URL where the store is not Amazon's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class LogFiles(Protocol):
    """One directory; every method raises OSError if it cannot be read."""

    def entries(self) -> Mapping[str, int | None]:
        """Return names, with the sizes of files; None for a folder."""

    def read(self, name: str, start: int, length: int) -> bytes:
        """Return bytes of a file, fewer if it ends before."""


def open_files(source: str) -> LogFiles:
    """Return the files of a directory.

    Raises:
        OSError: the file system that a URI names cannot be reached.
        ValueError: there is no such file system.
    """
    local = local_path(source)
    return _LocalFiles(local) if local is not None else _RemoteFiles(source)


def local_path(source: str) -> Path | None:
    """Return the path on this machine that a source names, None if it names another one."""
    if not _SCHEME.match(source):
        return Path(source)
    parts = urlsplit(source)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None


def child(source: str, name: str) -> str:
    """Return the source of a folder in a directory."""
    if not _SCHEME.match(source):
        return str(Path(source) / name)
    return f"{source.rstrip('/')}/{name}"


class _LocalFiles:
    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> Mapping[str, int | None]:
        found: dict[str, int | None] = {}
        with os.scandir(self.path) as entries:
            for entry in entries:
                try:
                    found[entry.name] = None if entry.is_dir() else entry.stat().st_size
                except OSError as error:
                    if entry.is_symlink():
                        # It leads to nothing, which is said by whoever reads it, if it has a size.
                        found[entry.name] = 1
                    elif not isinstance(error, FileNotFoundError):
                        raise
                    # Else it was deleted while it was listed.
        return found

    def read(self, name: str, start: int, length: int) -> bytes:
        with (self.path / name).open("rb", buffering=0) as file:
            file.seek(start)
            data = file.read(length)
            while len(data) < length and (more := file.read(length - len(data))):
                data += more
        return data


class _RemoteFiles:
    def __init__(self, source: str) -> None:
        self.files, self.path = file_system(source)

    def entries(self) -> Mapping[str, int | None]:
        from pyarrow import fs  # type: ignore[import-untyped] # it comes without types

        found: dict[str, int | None] = {}
        for info in self.files.get_file_info(fs.FileSelector(self.path)):
            found[info.base_name] = None if info.type == fs.FileType.Directory else info.size
        return found

    def read(self, name: str, start: int, length: int) -> bytes:
        with self.files.open_input_file(str(PurePosixPath(self.path) / name)) as file:
            size = max(0, min(length, file.size() - start))
            return bytes(file.read_at(size, start))


@lru_cache(maxsize=8)
def file_system(source: str) -> tuple[Any, str]:
    """Return a file system of `pyarrow.fs`, and the path in it."""
    from pyarrow import ArrowException, fs

    uri, endpoint = _uri(source)
    if endpoint:
        return _s3(endpoint), uri.removeprefix("s3://")
    if uri.startswith(("webhdfs:", "swebhdfs:")):
        return _webhdfs(uri)
    try:
        file_system, path = fs.FileSystem.from_uri(uri)
    except ArrowException as error:
        raise ValueError(str(error)) from error
    return file_system, path


def _uri(source: str) -> tuple[str, str]:
    """Return a URI with the library's names for S3, not Hadoop's; and where S3 is another's."""
    uri = re.sub(r"^s3[an]:", "s3:", source)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return uri, endpoint or "" if uri.startswith("s3:") else ""


@lru_cache(maxsize=1)
def _s3(endpoint: str) -> Any:
    from pyarrow import fs

    # Another server than Amazon's has buckets in its paths, and regions in name only.
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return fs.S3FileSystem(endpoint_override=endpoint, region=region)


def _webhdfs(uri: str) -> tuple[Any, str]:
    try:
        from analytics.store.webhdfs import webhdfs
    except ImportError as error:
        raise ValueError("webhdfs needs a library: pip install jbodlab[webhdfs]") from error
    return webhdfs(uri)


def object_store(source: str) -> Any:
    """Return a folder of an object store for `obstore`, which creates files exclusively there.

    Raises:
        ValueError: the library is missing, or the URI names no store.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        raise ValueError(
            "a lock in an object store needs obstore: pip install 'jbodlab[s3]'"
        ) from error
    uri, endpoint = _uri(source)
    options: dict[str, Any] = {}
    if endpoint:
        options = {"endpoint": endpoint, "virtual_hosted_style_request": False}
        options["client_options"] = {"allow_http": True}
    try:
        return from_url(uri, **options)
    except (BaseError, TypeError) as error:
        raise ValueError(str(error).splitlines()[0]) from error
