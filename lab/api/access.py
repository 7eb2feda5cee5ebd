"""Rights to requests: who may ask and who may change something.

The server can break disks, and any page that a browser has open may send requests to this machine.
So a request names the server as its URL does (a foreign name that resolves to this machine is
refused), a browser's request comes from the page itself, and a token is needed wherever others than
this user reach the server.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from lab.api.problems import RequestError

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Rights to requests.

    Attributes:
        token: Text that requests carry; empty where none is needed.
        is_secret: Whether what only reads needs it, too.
        hosts: Names by which a request may call the server; empty: any, as the token is needed.
    """

    token: str
    is_secret: bool
    hosts: frozenset[str]

    def check(
        self,
        method: str,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        *,
        is_public: bool,
    ) -> None:
        """Check a request by its head.

        Args:
            method: Of HTTP.
            headers: By names in small letters.
            query: Fields of the query; streams and links carry the token there.
            is_public: Whether it tells nothing about the cluster, and changes nothing.

        Raises:
            RequestError: it is refused.
        """
        host, origin = headers.get("host", ""), headers.get("origin")
        if self.hosts and host not in self.hosts:
            raise RequestError(421, f"expected the host {min(self.hosts)}, got {host[:80]!r}")
        if origin is not None and origin != f"http://{host}":
            raise RequestError(403, "requests from other pages are refused")
        is_reading = method in ("GET", "HEAD")
        kind = headers.get("content-type", JSON).partition(";")[0].strip().lower()
        if not is_reading and kind != JSON:
            raise RequestError(415, f"expected a body of type {JSON}")
        if not self.token or is_public or (is_reading and not self.is_secret):
            return
        bearer = headers.get("authorization", "")
        given = bearer[7:] if bearer[:7].lower() == "bearer " else headers.get(TOKEN_HEADER, "")
        if not given and is_reading:
            given = query.get(TOKEN_FIELD, "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise RequestError(401, "the token is missing, or of another start")
