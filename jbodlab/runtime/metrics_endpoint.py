"""`GET /metrics` over HTTP/1.1: one small request, one response, and the connection is closed.

The endpoint is for a scraper inside of the lab, not a web server: it keeps no connection, reads no
body, and serves no other path. It drops a request that is too large or too slow.

Names of topics stand in the metrics. So an address that others reach is not served without a token,
which a scraper shows in the header `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from jbodlab.config.key_table import Values
from jbodlab.runtime.http_connections import HttpConnections, finish
from jbodlab.runtime.http_message import HttpRequest, answer, parse_head
from jbodlab.runtime.metrics import Metric, render
from jbodlab.security.secret import HIDDEN, Secret
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.limits import HTTP_CONNECTIONS_MAX, HTTP_REQUEST_S

logger = logging.getLogger(__name__)

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

TOKEN = "jbodlab.metrics.token"
HOST = "jbodlab.metrics.host"


class Address(NamedTuple):
    """Where metrics are served.

    Attributes:
        port: 0 for a free one.
        token: Secret that requests have to show; None where all who reach the address may ask.
    """

    host: str
    port: int
    token: Secret[str] | None = None


def metrics_address(values: Values) -> Address | None:
    """Return host and port to serve metrics at; None if metrics are not served.

    Raises:
        ConfigError: the port is not one, or others would reach the address without a token.
    """
    port = values.optional_integer("jbodlab.metrics.port")
    if port is None:
        return None
    host, token = values.text(HOST), (values.optional_text(TOKEN) or "").strip()
    if not token and not is_loopback(host):
        raise ConfigError(TOKEN, "null", f"must be set where {HOST} is not of this machine: {host}")
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(TOKEN, HIDDEN, "must be of printable ASCII characters without blanks")
    return Address(host, port, Secret(token) if token else None)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class MetricsEndpoint:
    """Serves metrics at an address; lives on the event loop.

    Args:
        address: Where, and for whom.
        collect: Called at each request; returns the metrics.
    """

    def __init__(self, address: Address, collect: Callable[[], Iterable[Metric]]) -> None:
        self._host, self._port, self._token = address
        self._collect = collect
        self._connections = HttpConnections("metrics", HTTP_CONNECTIONS_MAX, self._serve)

    @property
    def port(self) -> int:
        """The port that is listened at."""
        return self._port

    async def start(self) -> None:
        """Begin to serve.

        Raises:
            ConfigError: the address cannot be bound.
        """
        try:
            self._port = await self._connections.start(self._host, self._port)
        except OSError as error:
            where = f"{self._host}:{self._port}"
            raise ConfigError("jbodlab.metrics.port", where, f"cannot be bound: {error}") from error
        logger.info("serving metrics", extra={"address": f"http://{self._host}:{self._port}"})

    async def close(self) -> None:
        """Stop to serve; requests on their way are dropped."""
        await self._connections.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HTTP_REQUEST_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                writer.write(answer("431 Request Header Fields Too Large"))
            else:
                writer.write(self._answer_to(head))
            await finish(writer)

    def _answer_to(self, head: bytes) -> bytes:
        request = parse_head(head)
        if request is None:
            return answer("400 Bad Request")
        if not self._may_ask(request):
            return answer("401 Unauthorized", headers={"WWW-Authenticate": "Bearer"})
        if request.path != "/metrics":
            return answer("404 Not Found")
        if request.method not in ("GET", "HEAD"):
            return answer("405 Method Not Allowed", headers={"Allow": "GET, HEAD"})
        try:
            text = render(self._collect())
        except Exception:
            # A scrape must never end the process that it monitors.
            logger.exception("cannot collect metrics")
            return answer("500 Internal Server Error")
        with_body = request.method == "GET"
        return answer("200 OK", text.encode(), kind=PROMETHEUS, with_body=with_body)

    def _may_ask(self, request: HttpRequest) -> bool:
        if self._token is None:
            return True
        # A scheme is the same in any case.
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        is_token = hmac.compare_digest(
            given.strip().encode("latin-1"), self._token.reveal().encode()
        )
        return is_token and scheme.lower() == "bearer"
