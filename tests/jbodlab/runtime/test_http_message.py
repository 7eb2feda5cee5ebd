"""Requests of HTTP: what is read, and what is refused because it could be read in two ways."""

from __future__ import annotations

import pytest

from jbodlab.runtime.http_message import answer, parse_head


def head(*lines: str) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def test_a_request_is_read() -> None:
    found = parse_head(head("GET /a%20b?x=1&x=2&y=%C3%A4 HTTP/1.1", "Host:  h:1 ", "X-Y: z"))

    assert found is not None
    assert (found.method, found.path) == ("GET", "/a b")
    assert dict(found.headers) == {"host": "h:1", "x-y": "z"}


@pytest.mark.parametrize(
    "lines",
    [
        ("GET / HTTP/2",),
        ("GET  / HTTP/1.1",),
        ("get / HTTP/1.1",),
        ("GET http://h/ HTTP/1.1",),
        ("GET /", "Host: h"),
        ("GET / HTTP/1.1", "Host: a", "host: b"),
        ("GET / HTTP/1.1", "Host : a"),
        ("GET / HTTP/1.1", " folded: a"),
        ("GET / HTTP/1.1", "no colon"),
    ],
)
def test_what_is_no_request_or_ambiguous_is_refused(lines: tuple[str, ...]) -> None:
    assert parse_head(head(*lines)) is None


def test_an_answer_without_a_body_says_its_status() -> None:
    assert answer("404 Not Found", headers={"A": "b"}) == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: 14\r\nA: b\r\nConnection: close\r\n\r\n404 Not Found\n"
    )
