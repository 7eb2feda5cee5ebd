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
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple, cast

import h11

from jbodlab.config.key_table import Values
from jbodlab.runtime.accepting import Acceptor
from jbodlab.runtime.metrics import Metric, render
from jbodlab.security.secret import HIDDEN, Secret
from jbodlab.vocabulary.errors import ConfigError
from jbodlab.vocabulary.limits import HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX, HTTP_REQUEST_S

logger = logging.getLogger(__name__)

TEXT = "text/plain; charset=utf-8"
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
        self._connections: set[_Connection] = set()
        self._acceptor = Acceptor(
            lambda: _Connection(self._answer_to, self._connections),
            lambda: HTTP_CONNECTIONS_MAX - len(self._connections),
        )

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
            self._port = await self._acceptor.start(self._host, self._port)
        except OSError as error:
            where = f"{self._host}:{self._port}"
            raise ConfigError("jbodlab.metrics.port", where, f"cannot be bound: {error}") from error
        logger.info("serving metrics", extra={"address": f"http://{self._host}:{self._port}"})

    async def close(self) -> None:
        """Stop to serve; requests on their way are dropped."""
        self._acceptor.close()
        for each in tuple(self._connections):
            each.abort()

    def _answer_to(self, request: h11.Request) -> _Answer:
        if not self._may_ask(dict(request.headers).get(b"authorization", b"")):
            return _Answer(HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"})
        if request.target.partition(b"?")[0] != b"/metrics":
            return _Answer(HTTPStatus.NOT_FOUND)
        if request.method not in (b"GET", b"HEAD"):
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"})
        try:
            return _Answer(HTTPStatus.OK, render(self._collect()).encode(), PROMETHEUS)
        except Exception:
            # A scrape must never end the process that it monitors.
            logger.exception("cannot collect metrics")
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _may_ask(self, authorization: bytes) -> bool:
        if self._token is None:
            return True
        # A scheme is the same in any case.
        scheme, _, given = authorization.partition(b" ")
        is_token = hmac.compare_digest(given.strip(), self._token.reveal().encode())
        return is_token and scheme.lower() == b"bearer"


class _Answer(NamedTuple):
    """A response; without a body it says its status."""

    status: HTTPStatus
    body: bytes | None = None
    kind: str = TEXT
    headers: Mapping[str, str] = {}


class _Connection(asyncio.Protocol):
    """A connection, which is closed after one response, or when its time is over.

    Args:
        answer_to: Returns the response to a request.
        open_ones: Contains this connection while it is open.
    """

    def __init__(
        self, answer_to: Callable[[h11.Request], _Answer], open_ones: set[_Connection]
    ) -> None:
        self._answer_to = answer_to
        self._open_ones = open_ones
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HTTP_HEAD_BYTES_MAX)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open_ones.add(self)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HTTP_REQUEST_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._open_ones.discard(self)

    def abort(self) -> None:
        """Drop the connection."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._send(_Answer(HTTPStatus(error.error_status_hint)))
        else:
            if isinstance(event, h11.Request):
                self._send(self._answer_to(event), with_body=event.method != b"HEAD")

    def _send(self, answer: _Answer, *, with_body: bool = True) -> None:
        """Send a response; the rest of the request is not read."""
        phrase = answer.status.phrase
        body = f"{answer.status} {phrase}\n".encode() if answer.body is None else answer.body
        fields = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(body)),
            **answer.headers,
            "Connection": "close",
        }
        head = h11.Response(
            status_code=answer.status, reason=phrase.encode(), headers=list(fields.items())
        )
        self._transport.write(self._http.send(head) or b"")
        if with_body:
            self._transport.write(body)
        self._transport.close()
