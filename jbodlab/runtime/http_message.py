"""Reads heads of HTTP/1.1 requests, and writes responses; for endpoints with a single purpose.

An ambiguous request is refused: one with lines that are not HTTP, or with a header twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

TEXT = "text/plain; charset=utf-8"

_LINE = re.compile(r"([A-Z]{1,20}) (/[!-~]*) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f]*?)[ \t]*")


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a request.

    Attributes:
        method: In capitals.
        path: Without the query, decoded.
        headers: Values by lower-case name.
    """

    method: str
    path: str
    headers: Mapping[str, str]


def parse_head(head: bytes) -> HttpRequest | None:
    """Return a request, given all up to and including the empty line; None if it is none."""
    first, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        return None
    headers: dict[str, str] = {}
    for each in rest:
        header = _HEADER.fullmatch(each)
        if header is None or header[1].lower() in headers:
            return None
        headers[header[1].lower()] = header[2]
    try:
        target = urlsplit(line[2])
    except ValueError:
        return None
    return HttpRequest(
        method=line[1],
        path=unquote(target.path),
        headers=headers,
    )


def _head(status: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of an answer after which the connection is closed."""
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


def answer(
    status: str,
    body: bytes | None = None,
    *,
    kind: str = TEXT,
    headers: Mapping[str, str] | None = None,
    with_body: bool = True,
) -> bytes:
    """Return an answer after which the connection is closed; without a body it says its status."""
    content = f"{status}\n".encode() if body is None else body
    fields = {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})}
    return _head(status, fields) + (content if with_body else b"")
