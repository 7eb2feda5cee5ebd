"""HDFS by its own HTTP interface, WebHDFS: no native library and no jar of Hadoop's is needed.

`webhdfs://[user@]namenode[:port]/path`, `swebhdfs://` with TLS; gateways (HttpFS) too. Without a
user in the URI it is the one of HADOOP_USER_NAME, else that of this process. Other options of the
library, as Kerberos or a delegation token, come from its own settings, such as the variable
FSSPEC_WEBHDFS_KERBEROS=true.
"""

from __future__ import annotations

import getpass
import os
from typing import Any
from urllib.parse import unquote, urlsplit

from fsspec.implementations.webhdfs import (  # type: ignore[import-untyped] # comes without types
    WebHDFS,
)
from pyarrow import fs  # type: ignore[import-untyped] # it comes without types

PORTS = {"webhdfs": 9870, "swebhdfs": 9871}
"""Of Hadoop's name node where a URI has none, by the scheme."""

_TELLS_WHO_ASKS = ("KERBEROS", "TOKEN", "USER")


def webhdfs(uri: str) -> tuple[Any, str]:
    """Return a file system of `pyarrow.fs`, and the path in it.

    Raises:
        ValueError: the URI names no host, or a port that is none.
    """
    parts = urlsplit(uri)
    if not parts.hostname:
        raise ValueError(f"{uri} names no name node")
    known = any(f"FSSPEC_WEBHDFS_{name}" in os.environ for name in _TELLS_WHO_ASKS)
    asks = {} if known else {"user": os.environ.get("HADOOP_USER_NAME") or getpass.getuser()}
    if parts.username:
        asks = {"user": unquote(parts.username)}
    files = _WebHdfs(
        host=parts.hostname,
        port=parts.port or PORTS[parts.scheme],
        use_https=parts.scheme == "swebhdfs",
        **asks,
    )
    return fs.PyFileSystem(fs.FSSpecHandler(files)), unquote(parts.path) or "/"


class _WebHdfs(WebHDFS):  # type: ignore[misc] # the base has no types
    """Facts that the library leaves open: when a file was written, whether it has a new name."""

    def info(self, path: str) -> dict[str, Any]:
        return _with_time(super().info(path))

    def ls(self, path: str, detail: bool = False, **options: Any) -> list[Any]:
        found: list[Any] = super().ls(path, detail=detail, **options)
        return [_with_time(one) for one in found] if detail else found

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        # A name node that does not rename says so in an answer that the library throws away.
        if not self._call("RENAME", method="put", path=path1, destination=path2).json()["boolean"]:
            raise OSError(f"{path1} is not renamed to {path2}")

    def _call(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super()._call(*arguments, **options)
        except RuntimeError as error:  # any other refusal of the name node: safe mode, standby
            raise OSError(str(error)) from error


def _with_time(info: dict[str, Any]) -> dict[str, Any]:
    return info | {"mtime": info["modificationTime"] / 1000}
