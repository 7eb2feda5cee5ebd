"""Rights to requests to the page's server.

It can break disks, and any page that a browser has open may send requests to this machine. So a
request names the server as its URL does (a foreign name that resolves to this machine is refused),
comes from the page itself, and what changes something carries the token of this start and JSON,
which no form of another page can send. Facts about a closed cluster are for clients with the token,
and not for everybody who has a login on this machine.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from jbodlab.runtime.http_message import HttpRequest

TOKEN_HEADER = "x-jbodlab-token"
TOKEN_FIELD = "token"
JSON = "application/json"
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
OWN_POLICY: Mapping[str, str] = {"Content-Security-Policy": "frame-ancestors 'none'"}
"""For a page that allows itself its own script and style, by their hashes, and nothing else."""


def refusal(
    request: HttpRequest, port: int, token: str, *, is_secret: bool = False
) -> tuple[str, str] | None:
    """Return status and reason why a request is refused; None if it may pass.

    Args:
        request: Its head.
        port: The port that is listened at.
        token: Token that requests that change something must carry.
        is_secret: Whether what is asked for is not for all users of this machine: then it carries
            the token too. Streams and links have no header for it, hence the query.
    """
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    if host not in hosts:
        return "421 Misdirected Request", f"expected the host {min(hosts)}, got {host[:80]!r}"
    if origin is not None and origin != f"http://{host}":
        return "403 Forbidden", "requests from other pages are refused"
    given = request.headers.get(TOKEN_HEADER) or request.query.get(TOKEN_FIELD, "")
    has_token = hmac.compare_digest(given.encode(), token.encode())
    if request.method == "GET":
        if is_secret and not has_token:
            return "403 Forbidden", "the cluster is closed: open the printed URL, it has the token"
        return None
    if request.method != "POST":
        return "405 Method Not Allowed", "expected GET or POST"
    if origin is None:
        return "403 Forbidden", "the header Origin is missing"
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        return "415 Unsupported Media Type", f"expected a body of type {JSON}"
    if TOKEN_HEADER not in request.headers or not has_token:
        return (
            "403 Forbidden",
            "the token is of another start: open the printed URL again",
        )
    return None
